"""Imports and exports: folders, COCO, CSV, Parquet, WebDataset, safetensors, and tables in memory."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ._display import size_text
from ._guard import guarded
from ._native import Exchange
from ._native import View as NativeView
from ._progress import ProgressLine, seconds_left
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

#: Rows of a Hugging Face dataset that are read at a time: few, since each may be a picture.
_ROWS_AT_ONCE = 1_000


@dataclasses.dataclass(frozen=True)
class ExchangeReport:
    """What was imported or exported."""

    rows: int
    bytes: int
    #: What was left out: where, and why. At most a thousand entries.
    skipped: list[tuple[str, str]]
    skipped_total: int
    columns: list[str]


def _listener(line: ProgressLine) -> Callable[[int, int, int | None], None] | None:
    """What shows progress on a line, if it is shown."""

    def listen(items: int, size: int, total: int | None) -> None:
        of = f" of {total:,}" if total else ""
        left = f", {seconds_left(items, total, line.seconds)}" if total else ""
        rate = f"{items / line.seconds:,.0f}/s, {size_text(int(size / line.seconds))}/s"
        line.show(f"{items:,}{of} items, {rate}{left}")

    return listen if line.shown else None


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
    line = ProgressLine(progress)
    pictures = None if images is None else os.fspath(images)
    options = (on_error, append, prefix, split_column, pictures, _one_character(delimiter), durable)
    try:
        path = os.path.expanduser(os.fspath(source))
        found = Exchange(ds._rows).import_from(kind, path, options, _listener(line))
    finally:
        line.close()
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
    view: NativeView | None = None,
) -> ExchangeReport:
    """See :meth:`Dataset.export_to`; with a view, only its rows and columns."""
    line = ProgressLine(progress)
    try:
        path = os.path.expanduser(os.fspath(dest))
        wanted = None if columns is None else list(columns)
        separator = _one_character(delimiter)
        found = Exchange(ds._rows).export_to(kind, path, wanted, on_error, separator, _listener(line), view)
    finally:
        line.close()
    return ExchangeReport(*found)


def _one_character(delimiter: str | None) -> str | None:
    if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1):
        raise InvalidError(f"delimiter: expected one character, found {delimiter!r}")
    return delimiter


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


@guarded
def from_folder(
    path: str | os.PathLike[str], url: Url, *, storage_options: StorageOptions | None = None, **options: Any
) -> Dataset:
    """A dataset from a folder whose subfolders are classes: a column for the files, and ``label``.

    Args:
        path: the folder.
        url: where to create the dataset.
        storage_options: options of its store.
        options: those of :meth:`Dataset.import_from`.
    """
    return _made("folder", path, url, storage_options, options)


@guarded
def from_coco(
    path: str | os.PathLike[str], url: Url, *, storage_options: StorageOptions | None = None, **options: Any
) -> Dataset:
    """A dataset from COCO annotations (a JSON file, or a folder with ``annotations``) and their images."""
    return _made("coco", path, url, storage_options, options)


@guarded
def from_csv(
    path: str | os.PathLike[str], url: Url, *, storage_options: StorageOptions | None = None, **options: Any
) -> Dataset:
    """A dataset from a CSV file: one column per field, with a type that fits its values."""
    return _made("csv", path, url, storage_options, options)


@guarded
def from_parquet(
    path: str | os.PathLike[str], url: Url, *, storage_options: StorageOptions | None = None, **options: Any
) -> Dataset:
    """A dataset from a Parquet file, or a folder of them."""
    return _made("parquet", path, url, storage_options, options)


@guarded
def from_webdataset(
    path: str | os.PathLike[str], url: Url, *, storage_options: StorageOptions | None = None, **options: Any
) -> Dataset:
    """A dataset from WebDataset tars: one, a folder of them, or a pattern such as ``train-{000..015}.tar``."""
    return _made("webdataset", path, url, storage_options, options)


@guarded
def from_safetensors(
    path: str | os.PathLike[str], url: Url, *, storage_options: StorageOptions | None = None, **options: Any
) -> Dataset:
    """A dataset of arrays from a safetensors file."""
    return _made("safetensors", path, url, storage_options, options)


@guarded
def from_table(table: Any, url: Url, *, storage_options: StorageOptions | None = None, **options: Any) -> Dataset:
    """A dataset from a table in memory: pandas, polars, an Arrow table or reader, anything else with
    ``__arrow_c_stream__``, or a Hugging Face ``datasets.Dataset``.

    The columns are the same as with :func:`from_parquet`: numbers and booleans become numbers; texts become text; decimals, dates
    and times exact texts; lists of numbers arrays; bytes of pictures or sound media; structs and maps JSON. Classes keep their
    names, and missing values stay missing. ``docs/columns.md`` has a table of all types.

    Args:
        table: the table.
        url: where to create the dataset.
        storage_options: options of its store.
        options: ``on_error="raise"|"skip"``, ``prefix``, ``durable``, ``progress``, as in :meth:`Dataset.import_from`.
    """
    from .dataset import create, delete

    stream = _stream_of(table)
    ds = create(url, storage_options=storage_options)
    try:
        _import_table(ds, stream, **options)
    except BaseException:
        delete(url, storage_options=storage_options)
        raise
    return ds


def _import_table(
    ds: Dataset,
    stream: Any,
    *,
    on_error: str = "raise",
    prefix: str | None = None,
    durable: bool = False,
    progress: bool | None = None,
) -> ExchangeReport:
    line = ProgressLine(progress)
    options = (on_error, False, prefix, None, None, None, durable)
    try:
        found = Exchange(ds._rows).import_table(stream, options, _listener(line))
    finally:
        line.close()
    return ExchangeReport(*found)


def _stream_of(table: Any) -> Any:
    """The table as an Arrow C stream."""
    module = type(table).__module__.split(".")[0]
    kind = type(table).__name__
    try:
        if module == "datasets" and hasattr(table, "features"):
            table = _hugging_face(table)
        elif module == "pandas":
            table = _pyarrow("pandas").Table.from_pandas(table, preserve_index=False)
        elif not hasattr(table, "__arrow_c_stream__"):
            if not hasattr(table, "to_arrow"):
                raise InvalidError(
                    "from_table takes pandas, polars and Arrow tables and Hugging Face datasets, not "
                    f"{kind}: a dict of lists becomes a table with pyarrow.table(…) or polars.DataFrame(…)"
                )
            table = table.to_arrow()
        return table.__arrow_c_stream__()
    except InvalidError:
        raise
    except Exception as error:
        raise InvalidError(
            f"from_table: the {kind} cannot be made an Arrow table: {type(error).__name__}: {error}; give every column "
            "one type, or drop those without"
        ) from error


def _pyarrow(for_what: str) -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise InvalidError(f"from_table needs pyarrow for {for_what}: pip install pyarrow") from error
    return pyarrow


def _hugging_face(table: Any) -> Any:
    """A reader of a Hugging Face dataset: its rows in its order, with what it knows of its columns."""
    pa = _pyarrow("Hugging Face datasets")
    schema = table.features.arrow_schema

    def batches() -> Any:
        for part in table.with_format("arrow").iter(batch_size=_ROWS_AT_ONCE):
            for batch in pa.Table.from_arrays(part.columns, schema=schema).to_batches():
                columns = [_embedded(pa, name, column) for name, column in zip(schema.names, batch.columns, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _embedded(pa: Any, name: str, column: Any) -> Any:
    """Files that are known by their path only, with their bytes: Hugging Face reads them when they are asked for."""
    kind = column.type
    if not pa.types.is_struct(kind) or {field.name for field in kind} != {"bytes", "path"}:
        return column
    found = column.to_pylist()
    for row, file in enumerate(found):
        if file is not None and file["bytes"] is None and file["path"] is not None:
            try:
                with open(file["path"], "rb") as opened:
                    file["bytes"] = opened.read()
            except OSError as error:
                raise InvalidError(f"column {name!r}, row {row} of its batch: {file['path']}: {error.strerror}") from error
    return pa.array(found, type=kind)
