"""Schedules of the learning rate: each sets its optimiser's ``lr`` when it is made and again at every ``step()``.

Most multiply the rate that stands in the group, so that several schedules on one optimiser combine; their closed form is used where an
epoch is named. Source: torch.optim.lr_scheduler, with its names, its recurrences and its rounding.
"""

from gradlib.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from gradlib.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from gradlib.optim.lr_scheduler.cyclic import CyclicLR, OneCycleLR
from gradlib.optim.lr_scheduler.factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from gradlib.optim.lr_scheduler.plateau import ReduceLROnPlateau
from gradlib.optim.lr_scheduler.scheduler import LRScheduler

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR", "LRScheduler",
    "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip
