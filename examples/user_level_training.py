"""Train with user-level privacy: protect all utterances of a user together.

    python examples/user_level_training.py

Example-level privacy protects one utterance, not a user with a hundred of them. With
`unit=Unit.USER`, users are sampled with all their utterances, and one gradient per user is clipped.
The cost: there are fewer users than utterances to hide among.
"""

import torch
from torch.nn.functional import cross_entropy

from sottovoce.corpora import Utterance
from sottovoce.corpora.synthetic import generate
from sottovoce.privacy.guarantee import Unit, rounded_up
from sottovoce.training import Plan, PrivateTraining

torch.manual_seed(0)
torch.set_num_threads(1)

said = list(generate("health", size=3600, users=400, seed=1))
train, test = said[:3000], said[3000:]
intents = sorted({utterance.intent for utterance in said})  # part of the product: public
WORDS = 512


def features(utterances: list[Utterance]) -> torch.Tensor:
    """Hashed words: the guarantee would not cover a vocabulary from private text."""
    rows = torch.zeros(len(utterances), WORDS)
    for row, utterance in enumerate(utterances):
        for word in utterance.tokens:
            rows[row, hash_of(word)] = 1.0
    return rows


def hash_of(word: str) -> int:
    return int.from_bytes(word.encode(), "big") % 1000003 % WORDS


def labels(utterances: list[Utterance]) -> torch.Tensor:
    return torch.tensor([intents.index(utterance.intent) for utterance in utterances])


x, y, x_test, y_test = features(train), labels(train), features(test), labels(test)
owners = [utterance.user for utterance in train]
print(f"{len(train)} utterances of {len(set(owners))} users, {len(intents)} intents")

# The population is declared: a public, round number of units (examples or users).
plans = {
    Unit.EXAMPLE: Plan(population=3000, batch_size=300, epochs=6, delta=1e-5),
    Unit.USER: Plan(population=400, batch_size=40, epochs=6, delta=1e-5, unit=Unit.USER),
}
for unit, plan in plans.items():
    plan = plan.calibrate(epsilon=4)
    model = torch.nn.Linear(WORDS, len(intents))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    units = owners if unit is Unit.USER else len(train)
    training = PrivateTraining(plan, model, optimizer, owners=units)
    for step in training.steps():
        for rows in step:
            step.backward(cross_entropy(model(x[rows]), y[rows], reduction="none"))
    accuracy = (model(x_test).argmax(1) == y_test).float().mean()
    true = training.guarantee()
    print(
        f"epsilon {rounded_up(true.epsilon)} for every {true.unit}: accuracy {accuracy:.2f} "
        f"(noise multiplier {plan.noise_multiplier:.2f} on sums of about {plan.batch_size})"
    )
