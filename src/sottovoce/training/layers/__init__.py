"""Rules for layers: how each kind runs so that per-example gradients are recorded.

`rule_for` registers further rules. Importing this package registers the built-in ones.
"""

from sottovoce.training.layers.attention import attention_rule
from sottovoce.training.layers.bags import bag_rule
from sottovoce.training.layers.cells import any_lstm_rule, rnn_rule
from sottovoce.training.layers.convolution import convolution_rule
from sottovoce.training.layers.linear import embedding_rule, linear, linear_rule, lookup
from sottovoce.training.layers.per_example import expanded, one_by_one
from sottovoce.training.layers.recurrent import gru_rule, lstm_rule
from sottovoce.training.layers.registry import Rule, find_rule, rule_for
from sottovoce.training.layers.scale import (
    group_norm_rule,
    layer_norm_rule,
    rms_norm_rule,
    scale_and_shift,
)

__all__ = [
    "Rule",
    "any_lstm_rule",
    "attention_rule",
    "bag_rule",
    "convolution_rule",
    "embedding_rule",
    "expanded",
    "find_rule",
    "group_norm_rule",
    "gru_rule",
    "layer_norm_rule",
    "linear",
    "linear_rule",
    "lookup",
    "lstm_rule",
    "one_by_one",
    "rms_norm_rule",
    "rnn_rule",
    "rule_for",
    "scale_and_shift",
]
