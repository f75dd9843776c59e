"""Tensors here are tiny: more threads would only add overhead."""

import torch

torch.set_num_threads(1)
