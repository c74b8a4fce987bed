"""Certificates made by openssl."""
import pathlib
import subprocess


class Authority:
    """Makes certificates in a folder."""

    def __init__(self, folder, name):
        self.folder, self.name = pathlib.Path(folder), name
        self.openssl("req", "-x509", *self.new_key(name), "-days", "2", "-subj", f"/CN={name}", "-out", self.path(f"{name}.pem"),
                     "-addext", "basicConstraints=critical,CA:TRUE")

    def path(self, name):
        return str(self.folder / name)

    def new_key(self, name):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.path(f"{name}.key")]

    @staticmethod
    def openssl(*arguments):
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (arguments, done.stderr)

    def issue(self, name, names="IP:127.0.0.1,DNS:localhost", days="2"):
        request, extensions = self.path(f"{name}.csr"), self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\n")
        self.openssl("req", *self.new_key(name), "-subj", f"/CN={name}", "-out", request)
        self.openssl("x509", "-req", "-in", request, "-CA", self.path(f"{self.name}.pem"), "-CAkey", self.path(f"{self.name}.key"),
                     "-CAcreateserial", "-days", days, "-extfile", str(extensions), "-out", self.path(f"{name}.pem"))
