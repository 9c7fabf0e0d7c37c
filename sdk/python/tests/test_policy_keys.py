"""The configurations have exactly the keys of the table in src/policy, under its words."""

import dataclasses
import json

import pytest

import cella
from conftest import REPOSITORY

KEYS = json.loads((REPOSITORY / "docs" / "policy-keys.json").read_text())
EXECUTORS = {executor for key in KEYS for executor in key["executors"]}
# Without the one that runs in this process: it takes few of the keys of a plain process.
ALL = [getattr(cella, name) for name in cella.__all__ if name.endswith("Config")]
CONFIGS = [config for config in ALL if config.executor in EXECUTORS - {"inprocess"}]
# Without a jail there is the host's network, and in the jail of a kernel none: there is nothing to choose.
WITHOUT_A_CHOICE = {("local", "network_disabled"), ("subprocess", "network_disabled"), ("subprocess", "mounts")}
# The words of those that this configuration replaces.
OTHER_WORDS = {("container", "default_timeout"): "timeout"}


def test_every_configuration_is_checked():
    assert {config.executor for config in CONFIGS} >= {"sandbox", "local", "subprocess"}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_fields_are_the_keys_of_the_executor(config):
    keys = {key["python"] for key in KEYS if key["python"] and config.executor in key["executors"]}
    keys -= {name for executor, name in WITHOUT_A_CHOICE if executor == config.executor}
    keys = {OTHER_WORDS.get((config.executor, name), name) for name in keys}
    known = {key["python"] for key in KEYS if key["python"]} | set(OTHER_WORDS.values())
    fields = {field.name for field in dataclasses.fields(config)}
    assert keys - fields == set(), "the configuration lacks keys of the table"
    assert fields & known == keys, "the configuration has keys that its executor refuses"


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_documents_use_the_words_of_the_table(config):
    words = {key["python"]: key["name"] for key in KEYS if key["python"]}
    for field in dataclasses.fields(config):
        if field.name not in words or field.name == "network_disabled":
            continue
        assert config._WORDS.get(field.name, field.name) == words[field.name], field.name
