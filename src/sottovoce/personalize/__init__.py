"""Federated marginal personalisation: rescoring adapted to each user, with private aggregation.

N-best lists are read (`formats`), each device counts its own words (`ClientCache`), a server sums
the contributions with noise and a ledger (`Server`, `ReleasePlan`), and a background language model
is adapted to each client (`Adaptation`, `rescore`). torch is loaded only for neural models.
"""

from sottovoce.personalize.device.messages import Contribution, RoundRequest
from sottovoce.personalize.federated.cache import ClientCache
from sottovoce.personalize.federated.counting import Caps, Counting
from sottovoce.personalize.federated.federation import clients_of, ledger_for, server_for
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.federated.pairs import SharedPairs, pair_vocabulary
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.release import CountRelease
from sottovoce.personalize.federated.rounds import CacheClient, RoundReport, run_rounds
from sottovoce.personalize.federated.server import NobodyJoined, Refused, Server
from sottovoce.personalize.lm.language_model import LanguageModel, load_lm
from sottovoce.personalize.lm.mixture import MixedLM
from sottovoce.personalize.lm.ngram.training import train_ngram
from sottovoce.personalize.lm.vocabulary import Dirichlet, Vocabulary
from sottovoce.personalize.nbest.formats import FORMATS, read_nbest, write_nbest
from sottovoce.personalize.nbest.lists import Hypothesis, NBest, by_client
from sottovoce.personalize.personaliser import Personaliser
from sottovoce.personalize.rescoring.run import Tuned, rescore, split_clients, tune_weights
from sottovoce.personalize.rescoring.scores import Adaptation, Weights
from sottovoce.personalize.rescoring.stream import Personalisation
from sottovoce.personalize.rescoring.trusting import Sources, Trust, rescore_personal, tune_trust
from sottovoce.personalize.rescoring.wer import WordErrors, word_errors

__all__ = [
    "FORMATS",
    "Adaptation",
    "CacheClient",
    "Caps",
    "ClientCache",
    "Contribution",
    "CountRelease",
    "Counting",
    "Dirichlet",
    "Hypothesis",
    "LanguageModel",
    "Marginals",
    "MixedLM",
    "NBest",
    "NobodyJoined",
    "Personalisation",
    "Personaliser",
    "Refused",
    "ReleasePlan",
    "RoundReport",
    "RoundRequest",
    "Server",
    "SharedPairs",
    "Sources",
    "Trust",
    "Tuned",
    "Vocabulary",
    "Weights",
    "WordErrors",
    "by_client",
    "clients_of",
    "ledger_for",
    "load_lm",
    "pair_vocabulary",
    "read_nbest",
    "rescore",
    "rescore_personal",
    "run_rounds",
    "server_for",
    "split_clients",
    "train_ngram",
    "tune_trust",
    "tune_weights",
    "word_errors",
    "write_nbest",
]
