"""SSH as storage of a DVC remote, for known hosts alone: `flows.remote` puts it in the place of DVC's own class."""

from functools import cached_property
from typing import Any

from dvc_ssh import SSHFileSystem


class KnownHosts(SSHFileSystem):
    """Refuses a host whose key does not stand in ~/.ssh/known_hosts, or where ~/.ssh/config says, while DVC's plugin
    trusts whoever answers; and lends it no keys of the agent."""

    @cached_property
    def fs_args(self) -> dict[str, Any]:
        # (): asyncssh looks where it does by default; without it the plugin's client would ask nobody.
        args: dict[str, Any] = super().fs_args | {"known_hosts": (), "agent_forwarding": False}
        return args
