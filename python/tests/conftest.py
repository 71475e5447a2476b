"""Fixtures that several files use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from azure_server import azure_container, azure_server
from gcs_server import gcs_bucket, gcs_server
from s3_server import s3_bucket, s3_server

import lacus

__all__ = ["azure_container", "azure_server", "gcs_bucket", "gcs_server", "s3_bucket", "s3_server"]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where there is nothing yet."""
    return str(tmp_path / "dataset")


@pytest.fixture
def ds(url: str) -> lacus.Dataset:
    """An empty dataset on disk."""
    return lacus.create(url)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """The same numbers in every run of a test, others in each test."""
    return np.random.default_rng(list(request.node.name.encode()))
