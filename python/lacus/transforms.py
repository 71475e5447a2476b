"""Transforms of pictures and sound that run without Python, with torchvision's names.

>>> import lacus.transforms as T
>>> train = T.Compose(
...     [
...         T.RandomResizedCrop(224),
...         T.RandomHorizontalFlip(),
...         T.ToImage(),
...         T.ToDtype("float32", scale=True),
...         T.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
...     ]
... )

Give it to a loader (``view.loader(64, transform={"images": train})``), or look at what it does to one picture:
``train(picture, seed=1, row=7)``. Random choices follow from the seed, the epoch and the id of the row alone.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from . import _native
from ._arrays import NDArray
from .errors import InvalidError

__all__ = [
    "RGB",
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ConvertImageDtype",
    "Crop",
    "Grayscale",
    "Normalize",
    "Pad",
    "RandomAudioCrop",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resample",
    "Resize",
    "ToDtype",
    "ToImage",
    "ToMono",
    "Transform",
    "apply",
]

#: A size: one number, or (height, width).
Size: TypeAlias = "int | Sequence[int]"

#: Names that other programs have for the same thing.
_INTERPOLATIONS = {"area": "box", "nearest-exact": "nearest", "antialias": "lanczos"}


def apply(transform: Transform, image: Any, *, seed: int = 0, epoch: int = 0, row: int = 0) -> NDArray:
    """Applies a transform to one sample, as a loader does it.

    ``image`` is a file (bytes), or an array: uint8 of shape (height, width) or (height, width, channels), or frames of sound of
    shape (frames, channels). ``seed``, ``epoch`` and ``row`` decide random choices: the same ones give the same result.
    """
    steps = transform._description()
    key = (_number("seed", seed), _number("epoch", epoch), _number("row", row))
    content = getattr(image, "bytes", image)
    if isinstance(content, (bytes, bytearray, memoryview)):
        return _native.transform_file(steps, bytes(content), key)
    array = np.asarray(image)
    if array.dtype.kind not in "uif":
        raise InvalidError(f"a transform takes a file (bytes) or an array of numbers, found {type(image).__name__}")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return _native.transform_array(steps, array, array.dtype.name, key)


class Transform:
    """A step, or a list of them. A plain value: it has a repr, can be compared and pickled."""

    def __call__(self, image: Any, *, seed: int = 0, epoch: int = 0, row: int = 0) -> NDArray:
        """The same as :func:`apply`."""
        return apply(self, image, seed=seed, epoch=epoch, row=row)

    def _steps(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def _exact(self) -> bool:
        return False

    def _native_transform(self) -> _native.SampleTransform:
        """What a loader runs."""
        return _native.native_transform(self._description())

    def _description(self) -> str:
        return json.dumps({"steps": self._steps(), "exact": self._exact()})


@dataclasses.dataclass(frozen=True)
class Compose(Transform):
    """Several steps, one after the other.

    Steps that can be done in one pass are: crops, resizes and flips together with the conversion to numbers. A JPEG is decoded at a
    half, a quarter or an eighth of its size where that is still at least as large as what is made of it. ``exact=True`` decodes it
    at full size, for the same pixels as torchvision's.
    """

    transforms: Sequence[Transform]
    exact: bool = dataclasses.field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.transforms, Iterable):
            raise InvalidError(f"Compose: expected a list of transforms, found {type(self.transforms).__name__}")
        steps = tuple(self.transforms)
        for step in steps:
            if not isinstance(step, Transform):
                raise InvalidError(
                    f"Compose: {step!r} is not one of lacus.transforms; give functions of your own to the loader instead"
                )
        object.__setattr__(self, "transforms", steps)
        _native.check_transform(self._description())

    def _steps(self) -> list[dict[str, Any]]:
        return [one for step in self.transforms for one in step._steps()]

    def _exact(self) -> bool:
        return bool(self.exact)


class _Step(Transform):
    """A step whose fields are its arguments."""

    #: Its name in Rust, if that is another one.
    _name: ClassVar[str | None] = None

    def _steps(self) -> list[dict[str, Any]]:
        step: dict[str, Any] = {"step": self._name or type(self).__name__}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.metadata.get("sent", True) and value is not None:
                step[field.name] = value
        return [step]

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _unsent(default: Any) -> Any:
    """An argument that is checked here and means nothing to Rust."""
    return dataclasses.field(default=default, metadata={"sent": False})


@dataclasses.dataclass(frozen=True)
class Resize(_Step):
    """To another size, antialiased: the pixels of Pillow and of torchvision.

    ``size`` is (height, width), or the length of the shorter side; the longer one then has at most ``max_size``.
    ``interpolation`` is "nearest", "box" (also called area), "bilinear", "bicubic" or "lanczos".
    """

    size: Size
    interpolation: Any = "bilinear"
    max_size: int | None = None
    antialias: bool = _unsent(True)

    def __post_init__(self) -> None:
        size = [_number("Resize: size", self.size)] if _is_number(self.size) else _numbers("Resize: size", self.size)
        self._set(size=tuple(size), interpolation=_interpolation(self.interpolation))
        _antialias("Resize", self.antialias)


@dataclasses.dataclass(frozen=True)
class CenterCrop(_Step):
    """The middle, of ``size`` (one number for a square). A picture that is smaller is padded with zeros."""

    size: Size

    def __post_init__(self) -> None:
        self._set(size=_pair("CenterCrop: size", self.size))


@dataclasses.dataclass(frozen=True)
class RandomCrop(_Step):
    """A part of ``size`` at a random place, after ``padding``. ``padding_mode``: "constant", "edge", "reflect" or "symmetric"."""

    size: Size
    padding: Any = None
    pad_if_needed: bool = False
    fill: Any = 0
    padding_mode: str = "constant"

    def __post_init__(self) -> None:
        padding = None if self.padding is None else _padding("RandomCrop: padding", self.padding)
        self._set(size=_pair("RandomCrop: size", self.size), padding=padding, fill=_fill("RandomCrop", self.fill))


@dataclasses.dataclass(frozen=True)
class RandomResizedCrop(_Step):
    """A part of random area (``scale``, of the whole), shape (``ratio``, width to height) and place, resized to ``size``."""

    size: Size
    scale: Sequence[float] = (0.08, 1.0)
    ratio: Sequence[float] = (3 / 4, 4 / 3)
    interpolation: Any = "bilinear"
    antialias: bool = _unsent(True)

    def __post_init__(self) -> None:
        self._set(
            size=_pair("RandomResizedCrop: size", self.size),
            scale=_range("RandomResizedCrop: scale", self.scale),
            ratio=_range("RandomResizedCrop: ratio", self.ratio),
            interpolation=_interpolation(self.interpolation),
        )
        _antialias("RandomResizedCrop", self.antialias)


@dataclasses.dataclass(frozen=True)
class RandomHorizontalFlip(_Step):
    """Left becomes right, with probability ``p``."""

    p: float = 0.5


@dataclasses.dataclass(frozen=True)
class RandomVerticalFlip(_Step):
    """Top becomes bottom, with probability ``p``."""

    p: float = 0.5


@dataclasses.dataclass(frozen=True)
class Pad(_Step):
    """More pixels around: one number for all sides, (left and right, top and bottom), or (left, top, right, bottom)."""

    padding: Any
    fill: Any = 0
    padding_mode: str = "constant"

    def __post_init__(self) -> None:
        self._set(padding=_padding("Pad: padding", self.padding), fill=_fill("Pad", self.fill))


@dataclasses.dataclass(frozen=True)
class ColorJitter(_Step):
    """Brightness, contrast, saturation and hue changed at random, in random order.

    A number x means factors from max(0, 1 - x) to 1 + x (for hue: turns from -x to x, at most 0.5); a pair is the range itself.
    """

    brightness: Any = None
    contrast: Any = None
    saturation: Any = None
    hue: Any = None

    def __post_init__(self) -> None:
        for name in ("brightness", "contrast", "saturation"):
            self._set(**{name: _factors(f"ColorJitter: {name}", getattr(self, name), 1.0)})
        self._set(hue=_factors("ColorJitter: hue", self.hue, 0.0))


@dataclasses.dataclass(frozen=True)
class Grayscale(_Step):
    """Brightness only, as 1 channel or as 3 that are the same."""

    num_output_channels: int = 1


@dataclasses.dataclass(frozen=True)
class RGB(_Step):
    """Three channels: gray is repeated, alpha dropped. Put it first where a column has pictures of both kinds."""


@dataclasses.dataclass(frozen=True)
class ToDtype(_Step):
    """To "float32", "float16" or "uint8" (also as dtypes of numpy or torch). With ``scale``, 0 to 255 becomes 0 to 1."""

    dtype: Any = "float32"
    scale: bool = False

    def __post_init__(self) -> None:
        self._set(dtype=_dtype(self.dtype), scale=bool(self.scale))


@dataclasses.dataclass(frozen=True)
class ConvertImageDtype(_Step):
    """:class:`ToDtype` with ``scale=True``."""

    dtype: Any = "float32"

    def __post_init__(self) -> None:
        self._set(dtype=_dtype(self.dtype))

    def _steps(self) -> list[dict[str, Any]]:
        return ToDtype(self.dtype, scale=True)._steps()


@dataclasses.dataclass(frozen=True)
class Normalize(_Step):
    """``(value - mean) / std``, one number per channel, or one for all. Takes floats: put :class:`ToDtype` before it."""

    mean: Any
    std: Any

    def __post_init__(self) -> None:
        self._set(mean=_floats("Normalize: mean", self.mean), std=_floats("Normalize: std", self.std))


@dataclasses.dataclass(frozen=True)
class ToImage(_Step):
    """Channels first, as torch wants them: (channels, height, width), for sound (channels, frames). Else they are last."""


@dataclasses.dataclass(frozen=True)
class Resample(_Step):
    """Sound at another rate, by a windowed sinc (torchaudio's default). ``orig_freq`` if the file does not say its rate."""

    orig_freq: int | None = None
    new_freq: int = 16000
    lowpass_filter_width: int = 6
    rolloff: float = 0.99


@dataclasses.dataclass(frozen=True)
class ToMono(_Step):
    """The mean of all channels of sound."""


@dataclasses.dataclass(frozen=True)
class Crop(_Step):
    """The first ``length`` frames of sound; zeros behind what is shorter."""

    length: int


@dataclasses.dataclass(frozen=True)
class RandomAudioCrop(_Step):
    """``length`` frames of sound from a random place on; zeros behind what is shorter."""

    length: int


# ---------------------------------------------------------------- arguments


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _number(what: str, value: Any) -> int:
    if not _is_number(value) or not 0 <= int(value) < 1 << 64:
        raise InvalidError(f"{what}: expected a number that is not negative, found {value!r}")
    return int(value)


def _numbers(what: str, values: Any) -> list[int]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidError(f"{what}: expected a number or several, found {values!r}")
    return [_number(what, value) for value in values]


def _pair(what: str, size: Any) -> tuple[int, int]:
    numbers = [_number(what, size)] if _is_number(size) else _numbers(what, size)
    if len(numbers) not in (1, 2):
        raise InvalidError(f"{what}: expected one number or (height, width), found {size!r}")
    return numbers[0], numbers[-1]


def _padding(what: str, padding: Any) -> tuple[int, ...]:
    numbers = [_number(what, padding)] if _is_number(padding) else _numbers(what, padding)
    if len(numbers) not in (1, 2, 4):
        raise InvalidError(f"{what}: expected 1, 2 or 4 numbers, found {padding!r}")
    return tuple(numbers * (4 // len(numbers)))


def _fill(what: str, fill: Any) -> tuple[int, ...]:
    numbers = [_number(f"{what}: fill", fill)] if _is_number(fill) else _numbers(f"{what}: fill", fill)
    if any(number > 255 for number in numbers):
        raise InvalidError(f"{what}: fill goes from 0 to 255, found {fill!r}")
    return tuple(numbers)


def _floats(what: str, values: Any) -> tuple[float, ...]:
    try:
        return tuple(float(value) for value in (values if isinstance(values, Iterable) else [values]))
    except (TypeError, ValueError):
        raise InvalidError(f"{what}: expected one number per channel, found {values!r}") from None


def _range(what: str, values: Any) -> tuple[float, float]:
    numbers = _floats(what, values)
    if len(numbers) != 2:
        raise InvalidError(f"{what}: expected (low, high), found {values!r}")
    return numbers[0], numbers[1]


def _factors(what: str, value: Any, center: float) -> tuple[float, float] | None:
    if value is None:
        return None
    if isinstance(value, Iterable):
        return _range(what, value)
    (number,) = _floats(what, value)
    if number < 0:
        raise InvalidError(f"{what}: expected a number that is not negative, found {value!r}")
    if number == 0:
        return None
    low = center - number
    return (max(0.0, low) if center else low), center + number


def _interpolation(value: Any) -> str:
    # torchvision's InterpolationMode is an enum of these words.
    name = str(getattr(value, "value", value)).lower()
    return _INTERPOLATIONS.get(name, name)


def _antialias(what: str, antialias: Any) -> None:
    if antialias is not True and antialias is not None:
        raise InvalidError(f"{what}: antialias={antialias!r} is not supported; pictures are always antialiased")


def _dtype(dtype: Any) -> str:
    # np.float32, np.dtype("float32"), torch.float32, "float32".
    if isinstance(dtype, str) or type(dtype).__module__.split(".")[0] == "torch":
        return str(dtype).removeprefix("torch.")
    try:
        return str(np.dtype(dtype).name)
    except TypeError:
        raise InvalidError(f"ToDtype: expected float32, float16 or uint8, found {dtype!r}") from None
