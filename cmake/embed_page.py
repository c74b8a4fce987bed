"""Writes the files of a folder as C++: embed_page.py FOLDER|--none OUT.cc. The result is the same for the same files."""
import gzip
import hashlib
import pathlib
import sys

TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon"}
NONE = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>kvist</title>
<p>This kvist was built without the dashboard's page (KVIST_DASHBOARD_PAGE=OFF). Its data are at <a href="api/state">api/state</a>.</p>
</html>
"""


def literal(name, data):
    """An array, because a string literal of this size is beyond what compilers must take."""
    lines = [", ".join(map(str, data[i:i + 32])) for i in range(0, len(data), 32)] or ["0"]
    return f"constexpr unsigned char {name}[] = {{\n" + ",\n".join(lines) + "};\n"


def view(name, data):
    return f"std::string_view(reinterpret_cast<const char*>({name}), {len(data)})"


def main(folder, out):
    files = {"index.html": NONE}
    if folder != "--none":
        files = {path.name: path.read_bytes() for path in sorted(pathlib.Path(folder).iterdir()) if path.suffix in TYPES}
        if "index.html" not in files:
            sys.exit(f"{folder}: no index.html")
    arrays, entries = "", ""
    for i, (name, data) in enumerate(files.items()):
        packed = gzip.compress(data, compresslevel=9, mtime=0)
        tag = hashlib.sha256(data).hexdigest()[:32]
        arrays += literal(f"kPlain{i}", data) + literal(f"kGzip{i}", packed)
        entries += (f'      Asset{{"{name}", "{TYPES[pathlib.Path(name).suffix]}", "\\"{tag}\\"", {view(f"kGzip{i}", packed)}, '
                    f'{view(f"kPlain{i}", data)}}},\n')
    text = f"""// Made by cmake/embed_page.py.
#include "kvist/dashboard/service/assets.h"

#include <array>

namespace kvist::dashboard {{
namespace {{

{arrays}
}}  // namespace

std::span<const Asset> assets() {{
  static const std::array<Asset, {len(files)}> kAssets = {{
{entries}  }};
  return kAssets;
}}

}}  // namespace kvist::dashboard
"""
    path = pathlib.Path(out)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    path.touch()


main(sys.argv[1], sys.argv[2])
