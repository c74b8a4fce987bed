"""An operator, an account and a user of NATS, as `nsc` would make them: keys (nkeys), their signed claims (JWT), a .creds file, a server's
configuration. https://docs.nats.io/running-a-nats-service/configuration/securing_nats/auth_intro/jwt has the format."""
import base64
import hashlib
import json
import pathlib
import secrets
import subprocess
import time

OPERATOR, ACCOUNT, USER, SEED = 14 << 3, 0, 20 << 3, 18 << 3
PKCS8 = bytes.fromhex("302e020100300506032b657004220420")  # what precedes an ed25519 seed in a private key's DER
UNLIMITED = {"subs": -1, "data": -1, "payload": -1}


def text_of(data):
    """Base32 with a CRC-16 (XMODEM) at the end."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = ((crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return base64.b32encode(data + crc.to_bytes(2, "little")).decode().rstrip("=")


def url_safe(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Key:
    def __init__(self, folder, name, kind):
        seed = secrets.token_bytes(32)
        self.file = pathlib.Path(folder, f"{name}.der")
        self.file.write_bytes(PKCS8 + seed)
        public = subprocess.run(["openssl", "pkey", "-inform", "DER", "-in", self.file, "-pubout", "-outform", "DER"], capture_output=True, check=True).stdout
        self.public = text_of(bytes([kind]) + public[-32:])
        self.seed = text_of(bytes([SEED | kind >> 5, (kind & 31) << 3]) + seed)

    def sign(self, subject, name, claims):
        """Claims about `subject`, as a JWT."""
        body = {"iat": int(time.time()), "iss": self.public, "name": name, "sub": subject.public, "nats": {"version": 2, **claims}}
        body["jti"] = base64.b32encode(hashlib.sha256(json.dumps(body).encode()).digest()).decode().rstrip("=")
        parts = [url_safe(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, body)]
        message = self.file.with_suffix(".message")
        message.write_text(".".join(parts))
        signature = subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-keyform", "DER", "-inkey", self.file, "-in", message],
                                   capture_output=True, check=True).stdout
        return ".".join([*parts, url_safe(signature)])


def make(folder):
    """Writes `server.conf` and `gateway.creds` into the folder; returns their paths."""
    operator, account, user = Key(folder, "operator", OPERATOR), Key(folder, "account", ACCOUNT), Key(folder, "user", USER)
    limits = {**UNLIMITED, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}
    of_operator = operator.sign(operator, "test", {"type": "operator"})
    of_account = operator.sign(account, "gateways", {"type": "account", "limits": limits})
    of_user = account.sign(user, "gateway", {"type": "user", "pub": {}, "sub": {}, **UNLIMITED})
    server, credentials = pathlib.Path(folder, "server.conf"), pathlib.Path(folder, "gateway.creds")
    server.write_text(f"operator: {of_operator}\nresolver: MEMORY\nresolver_preload: {{ {account.public}: {of_account} }}\n")
    credentials.write_text(f"-----BEGIN NATS USER JWT-----\n{of_user}\n------END NATS USER JWT------\n\n"
                           f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n")
    return server, credentials
