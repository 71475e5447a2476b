"""Native transforms against Pillow, which torchvision's agree with, and against what was promised of them."""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np
import pytest

import lacus
import lacus.transforms as T

Image = pytest.importorskip("PIL.Image")
ImageEnhance = pytest.importorskip("PIL.ImageEnhance")
ImageOps = pytest.importorskip("PIL.ImageOps")

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


def picture(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray[Any, Any]:
    """Waves and noise: edges, flat parts, extremes."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    waves = [127 + 127 * np.sin(y / (5 + c) + x / (11 - c)) for c in range(channels)]
    noisy = np.stack(waves, -1) + rng.normal(0, 20, (height, width, channels))
    noisy[: height // 4, : width // 4] = 255
    return np.clip(noisy, 0, 255).astype(np.uint8)


def jpeg(array: np.ndarray[Any, Any], **options: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(array if array.shape[-1] == 3 else array[..., 0]).save(out, "JPEG", **options)
    return out.getvalue()


def pil(array: np.ndarray[Any, Any]) -> Any:
    if array.shape[-1] == 4:
        # Of RGBA, Pillow multiplies colors with alpha first; torchvision does not.
        return Image.frombytes("CMYK", array.shape[1::-1], array.tobytes())
    return Image.fromarray(array if array.shape[-1] != 1 else array[..., 0])


def same_as_pil(ours: np.ndarray[Any, Any], theirs: Any, most: int = 0) -> None:
    expected = np.asarray(theirs)
    expected = expected[..., None] if expected.ndim == 2 else expected
    assert ours.shape == expected.shape
    assert np.abs(ours.astype(int) - expected.astype(int)).max() <= most


# ---------------------------------------------------------------- pixels


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_resized_pixels_are_pillows(name: str, channels: int) -> None:
    old = picture(97, 131, channels)
    for height, width in [(40, 50), (224, 200), (97, 60), (30, 131), (1, 1), (300, 7)]:
        ours = T.Resize((height, width), interpolation=name)(old)
        same_as_pil(ours, pil(old).resize((width, height), FILTERS[name]))


def test_the_shorter_side() -> None:
    old = picture(120, 180)
    assert T.Resize(60)(old).shape == (60, 90, 3)
    assert T.Resize(60, max_size=70)(old).shape == (46, 70, 3)
    assert T.Resize(60)(old.transpose(1, 0, 2)).shape == (90, 60, 3)


@pytest.mark.parametrize(("subsampling", "quality"), [(0, 95), (1, 85), (2, 75), (2, 30)])
@pytest.mark.parametrize("sides", [(64, 64), (123, 77), (9, 250), (1, 1), (2, 3), (17, 16)])
def test_jpegs_have_the_pixels_of_libjpeg(subsampling: int, quality: int, sides: tuple[int, int]) -> None:
    data = jpeg(picture(*sides), subsampling=subsampling, quality=quality)
    expected = np.asarray(Image.open(io.BytesIO(data)))
    np.testing.assert_array_equal(T.Compose([])(data), expected)
    gray = jpeg(picture(*sides, 1), quality=quality)
    np.testing.assert_array_equal(T.Compose([])(gray)[..., 0], np.asarray(Image.open(io.BytesIO(gray))))


def test_restart_markers_and_progressive_files() -> None:
    old = picture(123, 200)
    restarts = jpeg(old, quality=80, restart_marker_blocks=3)
    np.testing.assert_array_equal(T.Compose([])(restarts), np.asarray(Image.open(io.BytesIO(restarts))))
    progressive = jpeg(old, quality=80, progressive=True)
    # Another decoder, which interpolates colors at the edges in another way.
    same_as_pil(T.Compose([])(progressive), Image.open(io.BytesIO(progressive)), most=12)


def test_exact_pictures_of_files_are_those_of_pillow() -> None:
    data = jpeg(picture(480, 640), quality=85)
    theirs = Image.open(io.BytesIO(data)).convert("RGB").resize((298, 224), FILTERS["bilinear"])
    theirs = theirs.crop((37, 0, 261, 224))
    same_as_pil(T.Compose([T.Resize(224), T.CenterCrop(224)], exact=True)(data), theirs)
    # Decoded at half the size: the same picture, to the eye.
    quick = T.Compose([T.Resize(224), T.CenterCrop(224)])(data)
    far = np.abs(quick.astype(int) - np.asarray(theirs).astype(int))
    assert far.mean() < 3


def test_crops_are_those_of_torchvision() -> None:
    old = picture(50, 61)
    np.testing.assert_array_equal(T.CenterCrop((20, 30))(old), old[15:35, 16:46])
    np.testing.assert_array_equal(T.CenterCrop(21)(old), old[14:35, 20:41])
    larger = T.CenterCrop((54, 61))(old)
    np.testing.assert_array_equal(larger[2:52], old)
    assert not larger[:2].any() and not larger[52:].any()


@pytest.mark.parametrize(("mode", "numpys"), [("edge", "edge"), ("reflect", "reflect"), ("symmetric", "symmetric")])
def test_padding_is_numpys(mode: str, numpys: Any) -> None:
    old = picture(10, 12)
    ours = T.Pad((1, 2, 3, 4), padding_mode=mode)(old)
    np.testing.assert_array_equal(ours, np.pad(old, ((2, 4), (1, 3), (0, 0)), mode=numpys))


def test_padding_has_a_color() -> None:
    old = picture(10, 12)
    ours = T.Pad((1, 2), fill=(9, 8, 7))(old)
    assert ours.shape == (14, 14, 3)
    np.testing.assert_array_equal(ours[0, 0], [9, 8, 7])
    np.testing.assert_array_equal(ours[2:-2, 1:-1], old)


@pytest.mark.parametrize("factor", [0.0, 0.4, 1.0, 1.7])
def test_colors_are_those_of_pillow(factor: float) -> None:
    old = picture(40, 50)
    for argument, enhance in [
        ("brightness", ImageEnhance.Brightness),
        ("contrast", ImageEnhance.Contrast),
        ("saturation", ImageEnhance.Color),
    ]:
        ours = T.ColorJitter(**{argument: (factor, factor)})(old)
        same_as_pil(ours, enhance(pil(old)).enhance(factor), most=1)


def test_hues_turn() -> None:
    import colorsys

    old = picture(12, 13)
    ours = T.ColorJitter(hue=(0.25, 0.25))(old)
    for new, before in zip(ours.reshape(-1, 3), old.reshape(-1, 3), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*(before / 255))
        expected = np.array(colorsys.hsv_to_rgb((hue + 0.25) % 1, saturation, value)) * 255
        assert np.abs(new - expected).max() <= 1


def test_gray_and_rgb() -> None:
    old = picture(20, 21)
    same_as_pil(T.Grayscale()(old), pil(old).convert("L"))
    three = T.Grayscale(3)(old)
    assert three.shape == (20, 21, 3) and (three == three[..., :1]).all()
    gray = old[..., 0]
    np.testing.assert_array_equal(T.RGB()(gray), np.repeat(gray[..., None], 3, -1))
    np.testing.assert_array_equal(T.RGB()(picture(5, 6, 4)), picture(5, 6, 4)[..., :3])


def test_numbers_are_those_of_torch() -> None:
    old = picture(30, 31)
    mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    steps = [T.ToImage(), T.ToDtype(np.float32, scale=True), T.Normalize(mean, std)]
    expected = (old.astype(np.float32) * np.float32(1 / 255) - mean) / std
    ours = T.Compose(steps)(old)
    assert ours.dtype == np.float32
    np.testing.assert_array_equal(ours, expected.transpose(2, 0, 1))
    half = T.Compose([T.ConvertImageDtype("float16")])(old)
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, (old * np.float32(1 / 255)).astype(np.float16))
    plain = T.ToDtype("float32")(old)
    np.testing.assert_array_equal(plain, old.astype(np.float32))


# ---------------------------------------------------------------- chance


def test_the_same_key_gives_the_same_bits() -> None:
    old = jpeg(picture(200, 300))
    steps = T.Compose([T.RandomResizedCrop(64), T.RandomHorizontalFlip(), T.ColorJitter(0.4, 0.4, 0.4, 0.1)])
    first = steps(old, seed=3, epoch=1, row=17)
    np.testing.assert_array_equal(steps(old, seed=3, epoch=1, row=17), first)
    np.testing.assert_array_equal(T.apply(pickle.loads(pickle.dumps(steps)), old, seed=3, epoch=1, row=17), first)
    for other in [{"seed": 4}, {"epoch": 2}, {"row": 18}]:
        assert (steps(old, **{"seed": 3, "epoch": 1, "row": 17, **other}) != first).any()


def test_flips_happen_as_often_as_asked() -> None:
    old = picture(2, 8)
    flipped = sum((T.RandomHorizontalFlip(0.3)(old, row=row) == old[:, ::-1]).all() for row in range(1000))
    assert 240 < flipped < 360
    assert (T.RandomVerticalFlip(1.0)(old) == old[::-1]).all()


def test_areas_of_random_crops_are_spread() -> None:
    """Where each crop was taken from is read off a picture whose pixels say where they are."""
    y, x = np.mgrid[:200, :250]
    places = np.stack([y, x, np.zeros_like(x)], -1).astype(np.uint8)
    step = T.RandomResizedCrop(64, interpolation="nearest")
    areas, ratios = [], []
    for row in range(400):
        crop = step(places, seed=1, row=row).astype(int)
        height, width = np.ptp(crop[..., 0]) + 1, np.ptp(crop[..., 1]) + 1
        areas.append(height * width / (200 * 250))
        ratios.append(math.log(width / height))
    assert 0.05 < min(areas) < 0.15 and max(areas) > 0.75
    assert 0.35 < np.mean(areas) < 0.6
    assert abs(np.mean(ratios)) < 0.06
    assert -0.35 < min(ratios) and max(ratios) < 0.35


# ---------------------------------------------------------------- sound


def test_sound() -> None:
    rate = 8000
    tone = np.sin(np.arange(rate) / rate * 2 * np.pi * 440)
    stereo = np.stack([tone, np.zeros_like(tone)], -1).astype(np.float32)
    mono = T.ToMono()(stereo)
    np.testing.assert_allclose(mono[:, 0], tone / 2, atol=1e-6)
    faster = T.Resample(orig_freq=rate, new_freq=16000)(stereo)
    assert faster.shape == (16000, 2)
    expected = np.sin(np.arange(16000) / 16000 * 2 * np.pi * 440)
    np.testing.assert_allclose(faster[2000:-2000, 0], expected[2000:-2000], atol=0.01)
    cut = T.Compose([T.RandomAudioCrop(100), T.ToImage()])(stereo, row=5)
    assert cut.shape == (2, 100)
    start = int(np.flatnonzero([(stereo[i : i + 100, 0] == cut[0]).all() for i in range(rate - 100)])[0])
    assert 0 < start < rate - 100
    assert T.Crop(rate + 5)(stereo)[rate:].any() == np.False_


def test_sound_is_resampled_as_scipy_does() -> None:
    signal = pytest.importorskip("scipy.signal")
    rng = np.random.default_rng(0)
    noise = signal.lfilter(*signal.butter(6, 0.2), rng.normal(size=44100)).astype(np.float32)[:, None]
    ours = T.Resample(orig_freq=44100, new_freq=32000, lowpass_filter_width=64)(noise)[:, 0]
    theirs = signal.resample_poly(noise[:, 0].astype(float), 320, 441, window=("kaiser", 12.0))
    assert len(ours) == len(theirs)
    middle = slice(1000, -1000)
    assert np.abs(ours[middle] - theirs[middle]).max() < 0.01 * np.abs(theirs).max()


# ---------------------------------------------------------------- values and bad input


def test_transforms_are_values() -> None:
    step = T.Resize([256])
    assert step == T.Resize(256) and step != T.Resize(255)
    assert repr(T.RandomHorizontalFlip(0.25)) == "RandomHorizontalFlip(p=0.25)"
    whole = T.Compose([step, T.CenterCrop(224)])
    assert pickle.loads(pickle.dumps(whole)) == whole
    assert hash(whole) == hash(T.Compose((T.Resize(256), T.CenterCrop((224, 224)))))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: T.Compose([T.Resize(0)]), "step 1 (Resize): sides go from 1"),
        (lambda: T.Compose([T.RGB(), T.CenterCrop((5, 0))]), "step 2 (CenterCrop)"),
        (lambda: T.Compose([T.Normalize([0.5], [0.5])]), "takes floats"),
        (lambda: T.Compose([T.ToDtype("float32"), T.Normalize([0.5], [0.5, 0.5])]), "one number per channel"),
        (lambda: T.Compose([T.ToDtype("float32"), T.Normalize([0.5], [0])]), "not zero"),
        (lambda: T.Compose([T.ToDtype("int7")]), "int7"),
        (lambda: T.Compose([T.Resize(5, interpolation="cubic")]), "cubic"),
        (lambda: T.Resize(5, antialias=False), "antialias=False"),
        (lambda: T.Resize("large"), "large"),
        (lambda: T.Compose([T.RandomHorizontalFlip(2)]), "probability"),
        (lambda: T.Compose([T.ColorJitter(hue=0.6)]), "hue"),
        (lambda: T.Compose([T.ToDtype("float32"), T.Resize(5)]), "before ToDtype"),
        (lambda: T.Compose([T.ToMono(), T.Resize(5)]), "is for pictures"),
        (lambda: T.Compose([len]), "not one of lacus.transforms"),  # type: ignore[list-item]
        (lambda: T.Compose(5), "list of transforms"),  # type: ignore[arg-type]
    ],
)
def test_impossible_steps_are_named(make: Any, words: str) -> None:
    with pytest.raises(lacus.InvalidError) as caught:
        make()
    assert words in str(caught.value)


def test_samples_that_do_not_fit_are_named() -> None:
    with pytest.raises(lacus.InvalidError, match="RandomCrop: a part of 40 × 40 of a picture of 32 × 32"):
        T.RandomCrop(40)(picture(32, 32))
    assert T.RandomCrop(40, pad_if_needed=True)(picture(32, 32)).shape == (40, 40, 3)
    normal = T.Compose([T.ToDtype("float32", scale=True), T.Normalize([0.5] * 3, [0.5] * 3)])
    with pytest.raises(lacus.InvalidError, match="Normalize: mean has 3 numbers, the picture 1 channels"):
        normal(picture(8, 8, 1))
    with pytest.raises(lacus.InvalidError, match="pictures of uint8"):
        T.RGB()(np.zeros((4, 4, 3), np.float32))
    with pytest.raises(lacus.InvalidError, match="media format"):
        T.RGB()(b"no picture")
    with pytest.raises(lacus.InvalidError, match="cut off"):
        T.RGB()(jpeg(picture(64, 64))[:-100])
    with pytest.raises(lacus.InvalidError, match="orig_freq"):
        T.Resample(new_freq=8000)(np.zeros((10, 1), np.float32))
    with pytest.raises(lacus.InvalidError, match="row"):
        T.RGB()(picture(4, 4), row=-1)
