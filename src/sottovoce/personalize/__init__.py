"""Federated marginal personalisation: rescoring that knows you, and a server that does not.

N-best lists come in (`formats`), each device counts its own words (`ClientCache`), a server adds
up what it may see, with noise and a ledger (`Server`, `ReleasePlan`), and a background language
model is adapted to each client (`Adaptation`, `rescore`). Nothing here loads torch until a neural
model is used.
"""

from sottovoce.personalize.adaptation import Adaptation
from sottovoce.personalize.cache import ClientCache
from sottovoce.personalize.caps import Caps
from sottovoce.personalize.counting import Counting
from sottovoce.personalize.federation import clients_of, ledger_for, server_for
from sottovoce.personalize.formats import FORMATS, read_nbest, write_nbest
from sottovoce.personalize.language_model import LanguageModel, load_lm
from sottovoce.personalize.marginals import Marginals
from sottovoce.personalize.mixture import MixedLM
from sottovoce.personalize.nbest import Hypothesis, NBest, by_client
from sottovoce.personalize.ngram.training import train_ngram
from sottovoce.personalize.pairs import SharedPairs, pair_vocabulary
from sottovoce.personalize.phrases import PhraseCache
from sottovoce.personalize.plan import ReleasePlan
from sottovoce.personalize.release import CountRelease
from sottovoce.personalize.rescoring import Tuned, rescore, split_clients, tune_weights
from sottovoce.personalize.rounds import CacheClient, RoundReport, run_rounds
from sottovoce.personalize.scores import Weights
from sottovoce.personalize.server import NobodyJoined, Refused, Server
from sottovoce.personalize.smoothing import Dirichlet, JelinekMercer, Lidstone
from sottovoce.personalize.stream import Personalisation
from sottovoce.personalize.vocabulary import Vocabulary
from sottovoce.personalize.wer import WordErrors, word_errors

__all__ = [
    "FORMATS",
    "Adaptation",
    "CacheClient",
    "Caps",
    "ClientCache",
    "CountRelease",
    "Counting",
    "Dirichlet",
    "Hypothesis",
    "JelinekMercer",
    "LanguageModel",
    "Lidstone",
    "Marginals",
    "MixedLM",
    "NBest",
    "NobodyJoined",
    "Personalisation",
    "PhraseCache",
    "Refused",
    "ReleasePlan",
    "RoundReport",
    "Server",
    "SharedPairs",
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
    "run_rounds",
    "server_for",
    "split_clients",
    "train_ngram",
    "tune_weights",
    "word_errors",
    "write_nbest",
]
