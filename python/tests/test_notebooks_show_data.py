"""What a notebook shows of datasets, views, columns and arrays: true, bounded, escaped, and never an exception."""

from __future__ import annotations

import base64
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from media import dicom, picture, png_claiming

import lacus
from lacus import _cells, _chart, _notebook, _thumbnail

HOSTILE = "<script>alert('x')</script>\"&amp;"
#: Elements that never close.
VOID = {"br", "img", "rect", "line"}


class Page(HTMLParser):
    """HTML, checked to be well formed: what elements there are, the texts of cells, the pictures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.rows: list[list[str]] = []
        self.pictures: list[dict[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "img":
            self.pictures.append(dict(attrs))
        if tag not in VOID or (tag == "rect" and not self.get_starttag_text().endswith("/>")):  # type: ignore[union-attr]
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data

    def pixels(self) -> list[Any]:
        """The thumbnails, decoded."""
        found = []
        for attrs in self.pictures:
            head, _, body = (attrs["src"] or "").partition(",")
            assert head == "data:image/png;base64"
            found.append(lacus.read(base64.b64decode(body, validate=True)).array)
        return found


def page(value: Any) -> Page:
    text = value._repr_html_()
    found = Page(text)
    assert set(found.tags) <= {
        "div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "span", "br", "img", "pre", "svg", "rect", "line", "text",
        "title",
    }  # fmt: skip
    return found


@pytest.fixture
def photos(ds: lacus.Dataset, rng: np.random.Generator) -> lacus.Dataset:
    ds.add_column("image", "image")
    ds.add_column("label", "class_label", class_names=["cat", HOSTILE])
    ds.add_column("caption", "text")
    ds.add_column("boxes", "bbox")
    sizes = [(20, 30), (640, 480), (10, 1000), (64, 64)]
    ds.extend({
        "image": [*(picture(rng, *size) for size in sizes), None, picture(rng, 28, 28, 1)],
        "label": [0, 1, 0, 0, None, 1],
        "caption": ["a cat", HOSTILE, "", "one\ntwo", None, "x" * 500],
        "boxes": [np.ones((n, 4), np.float32) for n in (1, 2, 0, 9)] + [None, None],
    })  # fmt: skip
    return ds


def test_a_dataset_is_a_table_of_its_first_rows(photos: lacus.Dataset) -> None:
    found = page(photos)
    heading, *rows = found.rows
    assert [re.split(r"image|class|text|bbox", cell)[0] for cell in heading[2:]] == ["label", "caption", "boxes"]
    assert [row[0] for row in rows] == list("012345")
    assert [row[2] for row in rows] == ["cat", HOSTILE, "cat", "cat", "missing", HOSTILE]
    assert [row[3] for row in rows[:5]] == ["a cat", HOSTILE, "empty", "one two", "missing"]
    assert len(rows[5][3]) == 80 and rows[5][3].endswith("x…")
    assert [row[4] for row in rows] == [
        "[[1. 1. 1. 1.]]", "float32 (2, 4)", "[]", "float32 (9, 4)", "missing", "missing",
    ]  # fmt: skip
    # Sizes in the heading are those of the columns, and the title counts them all.
    assert f"{photos['boxes'].stored_bytes} B" in heading[4]
    assert "6 rows, 4 columns" in found.text and "script" not in found.tags
    assert [p.shape[:2] for p in found.pixels()] == [(20, 30), (64, 48), (2, 192), (64, 64), (28, 28)]
    # Small pictures are enlarged by the browser only.
    assert [(p["width"], p["height"]) for p in found.pictures][0] == ("90", "60")


def test_thumbnails_are_the_picture(photos: lacus.Dataset, rng: np.random.Generator) -> None:
    made = page(photos).pixels()
    assert np.array_equal(made[0], photos["image"][0])
    whole = photos["image"][1].astype(float)
    means = whole.reshape(64, 10, 48, 10, 3).mean((1, 3))
    assert np.abs(made[1].astype(float) - means).max() <= 6
    for dtype, high in ((np.uint16, 65535), (np.float32, 7.5), (np.int32, 1000)):
        stretched = _thumbnail.thumbnail(np.linspace(0, high, 12).reshape(3, 4).astype(dtype))
        assert stretched.dtype == np.uint8 and stretched.min() == 0 and stretched.max() == 255
    assert _thumbnail.thumbnail(np.array([[0.5, np.nan]])).tolist() == [[128, 0]]
    for channels in (1, 2, 3, 4):
        pixels = rng.integers(0, 256, (5, 7, channels), np.uint8)
        decoded = lacus.read(_thumbnail.png(pixels)).array
        assert np.array_equal(decoded.reshape(pixels.shape), pixels)


def test_views_show_their_own_rows(photos: lacus.Dataset) -> None:
    found = page(photos[[5, 1, 1]].select(["label", "image"]))
    assert found.text.startswith("lacus.View 3 of 6 rows")
    assert [row[:2] for row in found.rows[1:]] == [["0", HOSTILE]] * 1 + [["1", HOSTILE], ["2", HOSTILE]]
    assert [p.shape[:2] for p in found.pixels()] == [(28, 28), (64, 48), (64, 48)]
    assert "no rows" in page(photos[:0]).text


def test_nothing_to_show(ds: lacus.Dataset) -> None:
    assert "0 tensors" in page(ds).text
    made = ds.add_column("n", dtype="int64", shape=())
    assert "no rows" in page(ds).text and "no rows" in page(made).text
    ds.extend({"n": [None, None]})
    assert "no samples, 2 missing" in page(made).text
    assert [row[1] for row in page(ds).rows[1:]] == ["missing", "missing"]
    ds["empty"] = np.zeros((0, 3))
    ds["number"] = np.array(7)
    assert "(0, 3)" in page(ds["empty"]).text and "7" in page(ds["number"]).text


def test_hostile_names_stay_text(ds: lacus.Dataset) -> None:
    name = "<img src=x onerror=alert(1)>"
    ds.add_column(name, "json", metadata={"a": 1})
    ds.append({name: {"</td></table><script>": ["<b>", 'quote"', "\u202eturned"]}})
    ds.put("<b>array</b>", np.arange(6).reshape(2, 3), metadata={"<i>": 1})
    for value in (ds, ds[:], ds[name], ds["<b>array</b>"]):
        found = page(value)
        assert "script" not in found.tags and not found.pictures and "\u202e" not in found.text
    assert name in page(ds).rows[0][1] and "<b>array</b>" in page(ds["<b>array</b>"]).text
    assert page(ds).rows[1][1].startswith('{"</td></table><script>": ["<b>"')


def test_numbers_are_a_histogram(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    numbers = rng.normal(5, 2, 500).astype(np.float32)
    numbers[:3] = np.nan, np.inf, -np.inf
    ds.add_column("f", dtype="float32", shape=())
    ds.extend({"f": [None, *numbers.tolist()]})
    found = page(ds["f"])
    finite = numbers[3:]
    assert f"min {finite.min():.4g}, mean {finite.mean():.4g}, max {finite.max():.4g}" in found.text
    assert "1 missing" in found.text and "3 NaN or infinite" in found.text and found.tags.count("rect") == 30
    counts = [int(part) for part in re.findall(r"to \S+: (\d+)<", ds["f"]._repr_html_())]
    assert sum(counts) == len(finite) and counts == np.histogram(finite.astype(float), 30)[0].tolist()


def test_charts_of_other_numbers() -> None:
    assert _chart.bins(np.array([3, 5, 5])) == ([1, 0, 2], [2.5, 3.5, 4.5, 5.5])
    assert _chart.bins(np.array([2.5, 2.5])) == ([2], [2.5, 2.5])
    extremes = np.array([np.finfo(np.float64).min, np.finfo(np.float64).max])
    Page(_chart.histogram(extremes))
    Page(_chart.histogram(np.array([0, np.iinfo(np.uint64).max], np.uint64)))
    assert _chart.number_text(1234567) == "1,234,567" and _chart.number_text(0.012345) == "0.01235"


def test_classes_are_bars(photos: lacus.Dataset) -> None:
    found = page(photos["label"])
    # The hostile name is cut, and whole in the tooltip.
    assert found.tags.count("rect") == 2 and "cat3" in found.text and HOSTILE in found.text and "1 missing" in found.text
    photos.add_column("many", "class_label", class_names=[f"class {n}" for n in range(40)])
    photos.extend({"many": np.arange(80) % 40})
    found = page(photos["many"])
    assert found.tags.count("rect") == 12 and "… and 28 more classes with 56" in found.text
    photos.add_column("flag", dtype="bool", shape=(), default=True)
    assert f"True{len(photos)}" in page(photos["flag"]).text


def test_reading_is_bounded(ds: lacus.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    ds.add_column("n", dtype="int64", shape=())
    ds.add_column("v", dtype="float64", shape=(500,))
    ds.extend({"n": np.arange(3000), "v": np.zeros((3000, 500))})
    monkeypatch.setattr(_notebook, "SAMPLED", 1000)
    text = page(ds["n"]).text
    assert "from 1,000 of 3,000 rows, spread evenly" in text and "min 0, mean 1,498" in text and "max 2,997" in text
    monkeypatch.setattr(_notebook, "_ELEMENTS", 50_000)
    assert "from 100 of 3,000 rows" in page(ds["v"]).text
    assert "… and 2,994 more rows" in page(ds).text
    for n in range(25):
        ds.add_column(f"c{n}", "text")
    assert "… and 7 more columns" in page(ds).text


def test_pictures_share_a_budget(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    ds.add_column("a", "image")
    ds.extend({"a": [rng.integers(0, 256, (64, 64, 3), np.uint8) for _ in range(4)]})
    budget = _cells.Budget(html_bytes=40_000)
    made = _cells.cells(ds, "a", range(4), budget)
    assert [cell.startswith("<img") for cell in made] == [True, True, False, False] and "(64, 64, 3)" in made[3]
    made = _cells.cells(ds, "a", range(4), _cells.Budget(elements=64 * 64 * 3))
    assert [cell.startswith("<img") for cell in made] == [True, False, False, False]


def test_masks_and_other_types(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    ds.add_column("mask", "segment_mask")
    ds.add_column("objects", "binary_mask")
    ds.add_column("scan", "dicom")
    ds.add_column("frames", "sequence[image]")
    ds.add_column("outlines", "polygon")
    ds.add_column("tags", "class_label", class_names=["a", "b"], shape=(None,))
    ds.add_column("raw", "bytes")
    ds.append({
        "mask": np.array([[0, 1], [2, 11]], np.uint32), "objects": np.ones((4, 5, 2), bool),
        "scan": dicom(np.arange(12, dtype=np.uint16).reshape(3, 4)), "frames": [picture(rng), picture(rng)],
        "outlines": [[[1, 2], [3, 4], [5, 6]]], "tags": [1, 0], "raw": b"<x>",
    })  # fmt: skip
    found = page(ds)
    assert found.rows[1][2:] == ["bool (4, 5, 2)", "", "sequence of 2", "1 polygon", "b, a", "b'<x>'"]
    mask, scan = found.pixels()
    assert mask[0, 0].tolist() == [0, 0, 0] and mask[0, 1].tolist() == mask[1, 1].tolist() != mask[1, 0].tolist()
    assert scan.shape[:2] == (3, 4) and scan.max() == 255
    for name in ds.columns:
        page(ds[name])


def test_arrays_show_a_corner(ds: lacus.Dataset) -> None:
    ds["x"] = np.arange(2 * 30 * 40).reshape(2, 30, 40)
    text = page(ds["x"]).text
    assert "elements [0, :6, :6]" in text and "[200 201 202 203 204 205]" in text and "206" not in text
    ds["s"] = lacus.SparseTensor([[1, 2]], [3.0], (400, 500))
    assert "nonzeros" in page(ds["s"]).text


def test_what_cannot_be_read_is_shown_as_its_error(photos: lacus.Dataset, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.png").write_bytes(_thumbnail.png(np.zeros((4, 4, 3), np.uint8)))
    photos.allow_links(tmp_path / "files")
    photos.add_column("link", "link[image]")
    photos["link"][0] = lacus.link(tmp_path / "files" / "a.png")
    assert (4, 4) in [pixels.shape[:2] for pixels in page(photos).pixels()]
    (tmp_path / "files" / "a.png").unlink()
    rows = page(photos).rows
    # The other cells are shown.
    assert "Error: " in rows[1][5] and rows[2][5] == "missing" and rows[1][2] == "cat"
    view, label = photos[:3], photos["label"]
    shutil.rmtree(photos.url)
    for value in (photos, view, label):
        text = value._repr_html_()
        Page(text)
    assert "Error" in view._repr_html_()


def test_a_display_never_raises(ds: lacus.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    ds.add_column("n", dtype="int64", shape=())
    ds.append({"n": 1})
    ds["x"] = np.arange(3)

    def broken(*_: Any) -> str:
        raise RuntimeError("<first line>\nsecond line")

    for name in ("dataset_html", "column_html", "view_html", "array_html"):
        for module in (lacus.dataset, lacus.column, lacus.view, lacus.tensor):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, broken)
    for value in (ds, ds["n"], ds[:], ds["x"]):
        found = page(value)
        assert repr(value) in found.text and "RuntimeError: <first line>" in found.text and "second" not in found.text


def test_claims_of_files_are_not_believed(ds: lacus.Dataset) -> None:
    ds.add_column("image", "image")
    try:
        ds.append({"image": png_claiming(60_000, 60_000)})
    except lacus.LacusError:
        ds.append({"image": None})
    page(ds)
