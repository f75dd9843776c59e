"""Makes the general tagger that this package ships, the same bytes every time:

    python -m sottovoce.deid.detect.crf.general_shipping DATA [--out PATH] [--held-out]

DATA is a folder of the public sets named in `general_corpus.SOURCES`, and of GloVe vectors; the
package faker has to be there for its lists of names. Takes six minutes of one core. With
`--held-out` the last fifth of every set is left out of training and tested on: the way to figures,
and to the caution, which was chosen on those parts.
"""

import argparse
import json
from pathlib import Path

from sottovoce.corpora import Utterance
from sottovoce.deid.detect.combination import Combination
from sottovoce.deid.detect.crf.decoding import rounded
from sottovoce.deid.detect.crf.general import lexicon_text
from sottovoce.deid.detect.crf.general_corpus import SOURCES, TYPES, Names, public, training_corpus
from sottovoce.deid.detect.crf.general_lexicon import faker_lists, make_lexicon
from sottovoce.deid.detect.crf.tagger import Tagger
from sottovoce.deid.detect.crf.training import TaggerTraining, train
from sottovoce.deid.detect.evaluation import evaluate
from sottovoce.deid.detect.labels import LabelMap
from sottovoce.deid.detect.patterns import Patterns
from sottovoce.deid.detect.words import words_of

VECTORS = "vectors/glove-100d-subset.npz"
OPTIONS = TaggerTraining(l1=0.15, l2=0.01, iterations=90, least_count=2)
CAUTION = 0.9
LABELS = LabelMap({kind: kind for kind in TYPES})


def make(data: Path, names: Names, *, all_of_it: bool = True) -> Tagger:
    """Train on the public sets, and round the weights."""
    corpus: list[Utterance] = list(training_corpus(data, names, all_of_it=all_of_it))
    met = frozenset(word.lower for each in corpus for word in words_of(each.text))
    lexicon = lexicon_text(make_lexicon(data / VECTORS, names, met)).encode()
    trained = train(corpus, LABELS, OPTIONS, lexicon=lexicon)
    about = trained.about | {
        "caution": CAUTION,
        "corpora": ", ".join([*SOURCES, "built-in", "templates; names of Faker, GloVe clusters"]),
    }
    return Tagger(rounded(trained._model), about, lexicon=lexicon)


def figures(tagger: Tagger, data: Path) -> dict[str, dict[str, float]]:
    """Recall and precision on the held-out part of every set."""
    found = {}
    both = Combination([tagger, Patterns()])
    for name in SOURCES:
        tested = evaluate(both, public(data, name, held_out=True), LABELS)
        found[name] = {"recall": tested.recall, "precision": tested.precision}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the general tagger.")
    parser.add_argument("data", type=Path, help="Folder of the public sets.")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("general.tagger"))
    parser.add_argument("--held-out", action="store_true", help="Train on four fifths and test.")
    asked = parser.parse_args()
    tagger = make(asked.data, faker_lists(), all_of_it=not asked.held_out)
    tagger.save(asked.out)
    told = figures(Tagger.load(asked.out), asked.data) if asked.held_out else {}
    print(json.dumps({"bytes": asked.out.stat().st_size, **told}, indent=1))


if __name__ == "__main__":
    main()
