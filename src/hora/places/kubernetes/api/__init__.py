"""A thin client of the Kubernetes API, on sockets, ssl and json alone.

lightkube, kr8s and kubernetes take five to nine times as long to import, which is launch time; and none of them
forwards a port without a listening port here or a client that threads can't share.  `forward.open_forward` is
imported where it is needed.
"""

from hora.places.kubernetes.api.access import Access, load_access
from hora.places.kubernetes.api.client import Api, path
from hora.places.kubernetes.api.errors import ApiError, Expired, Unauthorized, Unreachable

__all__ = ["Access", "Api", "ApiError", "Expired", "Unauthorized", "Unreachable", "load_access", "path"]
