"""A model's files to the Hugging Face hub, in one commit, by the hub's own client.

The token is that of the client: `HF_TOKEN`, or what `hf auth login` has kept. `HF_ENDPOINT` names another hub.
"""

import re
from pathlib import Path

from bertcore.embedding.directory import module_folders
from bertcore.errors import ConfigError, InputError, UnavailableError, may_pass
from bertcore.export.directory import check_tokenizer, read_config, read_model
from bertcore.hub import be_quiet
from bertcore.model.huggingface import CARD_FILE

FORM = "hub://ORG/NAME"
_URI = re.compile(r"hub://(?P<repository>[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*)")

LEFT = (".*", "*.onnx", "checkpoint*", CARD_FILE)
"""Files of the directory that are not sent; the card is sent as it is given."""


_CACHED = re.compile(r"/files/md5/[0-9a-f]{2}/[0-9a-f]{30}$")
"""What DVC links the files of a tree to."""


def push(directory: Path, uri: str, card: str, *, private: bool = True, message: str = "Upload model") -> str:
    """Send the model of `directory`, with `card` as its README.md; the address of the commit.

    The directory is verified first: `ArtifactError` where it is not a whole model. `ConfigError` for another address
    than `FORM`, `InputError` where the hub refuses, `UnavailableError` where it does not answer.
    """
    match = _URI.fullmatch(uri)
    if match is None:
        raise ConfigError(f"{uri}: found no name of a model on the hub, expected {FORM}; correct it")
    _check_repository(match["repository"])
    saved = read_config(directory, forgive=True)
    read_model(saved)
    check_tokenizer(saved)
    be_quiet()
    return _send(directory, match["repository"], card, private, message)


def _check_repository(name: str) -> None:
    from huggingface_hub.errors import HFValidationError  # here, as below
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ConfigError(f"hub://{name}: the hub takes no such name ({error}); name the model otherwise") from None


def _send(directory: Path, repository: str, card: str, private: bool, message: str) -> str:
    import httpx2  # what the client raises. Only here: its import takes a second, and no other use of a model needs it
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    api = HfApi()
    places = [directory, *(directory / folder for folder in module_folders(directory))]
    paths = (path for place in places for path in sorted(place.iterdir()))
    files = [path for path in paths if path.is_file() and not any(map(path.match, LEFT))]
    for path in files:
        if not path.resolve().is_relative_to(directory.resolve()) and not _CACHED.search(path.resolve().as_posix()):
            raise InputError(
                f"{path}: found a link to {path.resolve()}, expected a file of the model; remove it, or copy the file"
            )
    operations = [CommitOperationAdd(path.relative_to(directory).as_posix(), str(path)) for path in files]
    operations.append(CommitOperationAdd(CARD_FILE, card.encode()))
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        return str(api.create_commit(repository, operations, commit_message=message).commit_url)
    except HfHubHTTPError as error:
        status = error.response.status_code
        said = " ".join(str(error).split())[:200]
        if may_pass(status):
            raise UnavailableError(f"hub://{repository}: the hub answered {status} ({said}); run again") from None
        raise InputError(
            f"hub://{repository}: the hub answered {status} ({said}), expected to be let in; check the name and the "
            "token (HF_TOKEN, or hf auth login)"
        ) from None
    except LocalTokenNotFoundError:
        raise InputError(f"hub://{repository}: found no token, expected one; set HF_TOKEN, or hf auth login") from None
    except httpx2.TransportError as error:
        raise UnavailableError(f"hub://{repository}: {api.endpoint} does not answer ({error}); run again") from None
