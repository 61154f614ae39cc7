"""SSH as storage of a DVC remote, as careful as ssh itself: `flows.remote` puts it in the place of DVC's own class."""

from typing import Any

from dvc_ssh import SSHFileSystem


class KnownHosts(SSHFileSystem):
    """Refuses a host whose key does not stand in ~/.ssh/known_hosts, where DVC's plugin trusts whoever answers, and
    lends it no keys of the agent."""

    def _prepare_credentials(self, **config: Any) -> dict[str, Any]:
        prepared: dict[str, Any] = super()._prepare_credentials(**config)
        return prepared | {"known_hosts": (), "agent_forwarding": False}
