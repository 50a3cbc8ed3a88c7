"""Content types that schemathesis does not know: they are sent as text or as bytes."""

import schemathesis

schemathesis.serializer.alias(["application/x-ndjson"], "text/plain")
schemathesis.serializer.alias(["application/x-protobuf"], "application/octet-stream")
