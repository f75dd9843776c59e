"""Lightning, made private: training, schedules, checkpoints, refusals."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

lightning = pytest.importorskip("lightning", reason="needs the package lightning")

from lightning.fabric.utilities.exceptions import MisconfigurationException  # noqa: E402
from lightning.pytorch.callbacks import EarlyStopping  # noqa: E402

from sottovoce.errors import InvalidInput  # noqa: E402
from sottovoce.training.integrations.lightning import Privacy, PrivateModule  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of other packages
POPULATION = 40


class Classifier(PrivateModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))

    def losses(self, batch: Any) -> Tensor:
        x, y = batch
        return functional.cross_entropy(self.net(x), y, reduction="none")

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", self.losses(batch).mean())

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.1)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)]


def data() -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(POPULATION, 4, generator=generator)
    return TensorDataset(x, x.argmax(1) % 3)


def fit(folder: Path, *, until: int = 3, checkpoint: Any = None, **more: Any) -> Any:
    module = Classifier()
    settings = Privacy(epsilon=8, delta=1e-3, population=POPULATION)
    steps = module.private(settings, data(), batch_size=8, epochs=3, virtual_batch=4)
    trainer = lightning.Trainer(
        max_epochs=until, accelerator="cpu", default_root_dir=folder, logger=False,
        enable_progress_bar=False, enable_model_summary=False, **more,
    )  # fmt: skip
    trainer.fit(module, steps, DataLoader(data(), batch_size=10), ckpt_path=checkpoint)
    return trainer


def test_a_module_becomes_private_and_resumes(tmp_path: Path) -> None:
    first = fit(tmp_path, until=2)
    module = first.lightning_module
    assert first.global_step == module.training_run.step == 10
    assert float(first.callback_metrics["epsilon"]) == pytest.approx(module.guarantee().epsilon)
    assert "val_loss" in first.callback_metrics
    assert "loss" not in first.callback_metrics
    assert module.training_run.optimizer.param_groups[0]["lr"] == pytest.approx(0.025)
    again = fit(tmp_path, checkpoint=first.checkpoint_callback.best_model_path)
    module = again.lightning_module
    assert module.training_run.step == 15
    assert 7 < module.guarantee().epsilon <= 8
    assert sum(entry.count for entry in module.training_run.ledger().entries) == 15


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"gradient_clip_val": 1.0}, "gradient_clip_val"),
        ({"precision": "bf16-mixed"}, "precision"),
        ({"callbacks": [EarlyStopping("val_loss")]}, "EarlyStopping"),
    ],
)
def test_what_breaks_the_guarantee_is_refused(
    more: dict[str, Any], named: str, tmp_path: Path
) -> None:
    with pytest.raises((InvalidInput, MisconfigurationException), match=named):
        fit(tmp_path, **more)


def test_a_training_step_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"losses\(batch\)"):

        class Usual(PrivateModule):
            def training_step(self, batch: Any, batch_idx: int) -> None: ...


def test_another_loader_is_refused(tmp_path: Path) -> None:
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, default_root_dir=tmp_path,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    with pytest.raises(InvalidInput, match=r"module\.private"):
        trainer.fit(Classifier(), DataLoader(data(), batch_size=8))
