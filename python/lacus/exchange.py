"""Imports and exports: folders, COCO, CSV, Parquet, WebDataset, safetensors, and tables in memory."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._display import size_text
from ._native import Exchange
from .errors import InvalidError

if TYPE_CHECKING:
    from .dataset import Dataset, StorageOptions, Url

__all__ = [
    "ExchangeReport",
    "from_coco",
    "from_csv",
    "from_folder",
    "from_parquet",
    "from_safetensors",
    "from_table",
    "from_webdataset",
]

#: Rows of a table in memory that are appended at a time.
_ROWS_AT_ONCE = 10_000


@dataclasses.dataclass(frozen=True)
class ExchangeReport:
    """What was imported or exported."""

    rows: int
    bytes: int
    #: What was left out: where, and why. At most a thousand of them.
    skipped: list[tuple[str, str]]
    skipped_total: int
    columns: list[str]


class _Bar:
    """A line on the terminal."""

    def __init__(self, shown: bool | None) -> None:
        self.shown = sys.stderr.isatty() if shown is None else shown
        self._start = time.monotonic()

    def __call__(self, items: int, size: int, total: int | None) -> None:
        spent = max(time.monotonic() - self._start, 1e-9)
        of = f" of {total:,}" if total else ""
        left = f", {(total - items) * spent / max(items, 1):.0f} s left" if total else ""
        rate = f"{items / spent:,.0f}/s, {size_text(int(size / spent))}/s"
        sys.stderr.write(f"\r{items:,}{of} items, {rate}{left} \x1b[K")
        sys.stderr.flush()

    def close(self) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def import_into(
    ds: Dataset,
    source: str | os.PathLike[str],
    kind: str | None,
    *,
    on_error: str = "raise",
    append: bool = False,
    prefix: str | None = None,
    split_column: str | None = None,
    images: str | os.PathLike[str] | None = None,
    delimiter: str | None = None,
    durable: bool = False,
    progress: bool | None = None,
) -> ExchangeReport:
    """See :meth:`Dataset.import_from`."""
    bar = _Bar(progress)
    pictures = None if images is None else os.fspath(images)
    options = (on_error, append, prefix, split_column, pictures, delimiter, durable)
    try:
        path = os.path.expanduser(os.fspath(source))
        found = Exchange(ds._rows).import_from(kind, path, options, bar if bar.shown else None)
    finally:
        bar.close()
    return ExchangeReport(*found)


def export_from(
    ds: Dataset,
    dest: str | os.PathLike[str],
    kind: str | None,
    *,
    columns: Sequence[str] | None = None,
    on_error: str = "raise",
    delimiter: str | None = None,
    progress: bool | None = None,
) -> ExchangeReport:
    """See :meth:`Dataset.export_to`."""
    bar = _Bar(progress)
    try:
        path = os.path.expanduser(os.fspath(dest))
        wanted = None if columns is None else list(columns)
        found = Exchange(ds._rows).export_to(kind, path, wanted, on_error, delimiter, bar if bar.shown else None)
    finally:
        bar.close()
    return ExchangeReport(*found)


def _made(
    kind: str, path: str | os.PathLike[str], url: Url, storage_options: StorageOptions | None, options: dict[str, Any]
) -> Dataset:
    """A dataset made from a source; nothing is left of it when that fails."""
    from .dataset import create, delete

    ds = create(url, storage_options=storage_options)
    try:
        import_into(ds, path, kind, **options)
    except BaseException:
        delete(url, storage_options=storage_options)
        raise
    return ds


def from_folder(
    path: str | os.PathLike[str], url: Url, *, storage_options: StorageOptions | None = None, **options: Any
) -> Dataset:
    """A dataset from a folder whose subfolders are classes: a column for the files, and ``label``.

    Args:
        path: the folder.
        url: where the dataset is made.
        storage_options: options of its store.
        options: those of :meth:`Dataset.import_from`.
    """
    return _made("folder", path, url, storage_options, options)


def from_coco(
    path: str | os.PathLike[str], url: Url, *, storage_options: StorageOptions | None = None, **options: Any
) -> Dataset:
    """A dataset from COCO annotations (a JSON file, or a folder with ``annotations``) and their images."""
    return _made("coco", path, url, storage_options, options)


def from_csv(
    path: str | os.PathLike[str], url: Url, *, storage_options: StorageOptions | None = None, **options: Any
) -> Dataset:
    """A dataset from a CSV file: a column for each of its own, with the types that its values have."""
    return _made("csv", path, url, storage_options, options)


def from_parquet(
    path: str | os.PathLike[str], url: Url, *, storage_options: StorageOptions | None = None, **options: Any
) -> Dataset:
    """A dataset from a Parquet file, or a folder of them."""
    return _made("parquet", path, url, storage_options, options)


def from_webdataset(
    path: str | os.PathLike[str], url: Url, *, storage_options: StorageOptions | None = None, **options: Any
) -> Dataset:
    """A dataset from WebDataset tars: one, a folder of them, or a pattern such as ``train-{000..015}.tar``."""
    return _made("webdataset", path, url, storage_options, options)


def from_safetensors(
    path: str | os.PathLike[str], url: Url, *, storage_options: StorageOptions | None = None, **options: Any
) -> Dataset:
    """A dataset of arrays from a safetensors file."""
    return _made("safetensors", path, url, storage_options, options)


def from_table(table: Any, url: Url, *, storage_options: StorageOptions | None = None) -> Dataset:
    """A dataset from a table in memory: pandas, polars, an Arrow table, or a Hugging Face ``datasets.Dataset``.

    Numbers and booleans become columns of numbers, texts columns of text, pictures (of Hugging Face, or bytes) columns of
    images, classes keep their names, lists of numbers become arrays, anything else JSON. Missing values stay missing.
    """
    from .dataset import create, delete

    columns, count, batches = _columns_of(table)
    ds = create(url, storage_options=storage_options)
    try:
        for name, spec in columns.items():
            ds.add_column(name, **spec)
        for batch in batches(_ROWS_AT_ONCE):
            ds.extend(batch)
    except BaseException:
        delete(url, storage_options=storage_options)
        raise
    if len(ds) != count:
        raise InvalidError(f"{count} rows were expected, {len(ds)} came")
    return ds


def _columns_of(table: Any) -> tuple[dict[str, dict[str, Any]], int, Any]:
    """Names and types of columns, how many rows, and a function that gives batches of them."""
    module = type(table).__module__.split(".")[0]
    if module == "datasets" and hasattr(table, "features"):
        return _hugging_face(table)
    if module in ("pandas", "polars") or hasattr(table, "to_arrow") or hasattr(table, "__arrow_c_stream__"):
        pass
    elif module != "pyarrow":
        raise InvalidError(
            f"from_table takes pandas, polars and Arrow tables and Hugging Face datasets, not {type(table).__name__}"
        )
    try:
        import pyarrow as pa
    except ImportError as error:
        raise InvalidError("from_table needs pyarrow for tables: pip install pyarrow") from error
    if module == "pandas":
        table = pa.Table.from_pandas(table, preserve_index=False)
    elif module == "polars":
        table = table.to_arrow()
    elif not isinstance(table, pa.Table):
        table = pa.table(table)
    columns = {field.name: _arrow_spec(pa, field, table.column(field.name)) for field in table.schema}

    def batches(rows: int) -> Any:
        for start in range(0, table.num_rows, rows):
            part = table.slice(start, rows)
            yield {
                name: [_fitting(value, spec) for value in part.column(name).to_pylist()]
                for name, spec in columns.items()
            }

    return columns, table.num_rows, batches


def _arrow_spec(pa: Any, field: Any, column: Any) -> dict[str, Any]:
    kind = field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return {"dtype": np.dtype(kind.to_pandas_dtype()).name, "shape": ()}
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or getattr(pa.types, "is_string_view", bool)(kind):
        return {"htype": "text"}
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return {"htype": "image"}
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if is_list and (pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)):
        size = kind.list_size if pa.types.is_fixed_size_list(kind) else None
        return {"dtype": np.dtype(kind.value_type.to_pandas_dtype()).name, "shape": (size,)}
    return {"htype": "json"}


def _fitting(value: Any, spec: dict[str, Any]) -> Any:
    """A value of a table as its column takes it."""
    if value is None:
        return None
    if "dtype" in spec:
        return np.asarray(value, dtype=spec["dtype"])
    if spec["htype"] == "json":
        return _plain(value)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _hugging_face(table: Any) -> tuple[dict[str, dict[str, Any]], int, Any]:
    columns: dict[str, dict[str, Any]] = {}
    for name, feature in table.features.items():
        kind = type(feature).__name__
        if kind == "ClassLabel":
            columns[name] = {"htype": "class_label", "class_names": list(feature.names)}
        elif kind == "Image":
            columns[name] = {"htype": "image"}
        elif kind == "Audio":
            columns[name] = {"htype": "audio"}
        elif kind == "Value" and feature.dtype in ("string", "large_string"):
            columns[name] = {"htype": "text"}
        elif kind == "Value" and feature.dtype in ("bool", *(n for n in _NUMBERS)):
            columns[name] = {"dtype": feature.dtype, "shape": ()}
        else:
            columns[name] = {"htype": "json"}
    raw = table
    for name, spec in columns.items():
        if spec.get("htype") in ("image", "audio"):
            raw = raw.cast_column(name, type(table.features[name])(decode=False))

    def media(value: Any) -> Any:
        if value is None:
            return None
        data = value.get("bytes")
        if data is None:
            with open(value["path"], "rb") as file:
                data = file.read()
        return data

    def batches(rows: int) -> Any:
        for start in range(0, len(raw), rows):
            part = raw[start : start + rows]
            yield {
                name: [
                    media(value) if spec.get("htype") in ("image", "audio") else _fitting_plain(value, spec)
                    for value in part[name]
                ]
                for name, spec in columns.items()
            }

    return columns, len(raw), batches


_NUMBERS = (
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
)


def _fitting_plain(value: Any, spec: dict[str, Any]) -> Any:
    if spec.get("htype") == "class_label":
        return None if value is None or int(value) < 0 else int(value)
    return _fitting(value, spec)
