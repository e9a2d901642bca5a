"""Shipped data files are read once and a file that does not fit says where."""

import msgspec
import pytest

from constants.load import ConstantsError, load


class Wrong(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    council: int


class Whole(msgspec.Struct, frozen=True):
    council: dict[str, object]


def test_a_file_is_read_once() -> None:
    assert load("limits.toml", Whole) is load("limits.toml", Whole)


def test_a_wrong_type_names_file_and_place() -> None:
    with pytest.raises(ConstantsError, match=r"constants/limits\.toml: .*\$\.council.*reinstall"):
        load("limits.toml", Wrong)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConstantsError, match=r"constants/absent\.toml"):
        load("absent.toml", Whole)
