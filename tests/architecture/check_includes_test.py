"""The layer check must fail where it should: each rule is broken once in a small tree."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_includes

CMAKE = "kvist_module(base)\nkvist_module(kv DEPENDS base)\nkvist_module(net DEPENDS base)\nkvist_module(worker DEPENDS base net)\n"
PRIVATE_HEADERS = {"net/asio_types.h": "#include <boost/asio.hpp>\n", "net/loop.h": '#include "kvist/net/asio_types.h"\n'}
CASES = {
    "allowed include": ("kv/a.h", '#include "kvist/base/error.h"\n', CMAKE, 0),
    "own module": ("kv/a.h", '#include "kvist/kv/b.h"\n', CMAKE, 0),
    "undeclared include": ("kv/a.h", '#include "kvist/net/http.h"\n', CMAKE, 1),
    "upward dependency": ("kv/a.h", "", CMAKE.replace("kv DEPENDS base", "kv DEPENDS net"), 1),
    "network library below net": ("kv/a.cc", "#include <boost/asio.hpp>\n", CMAKE, 2),  # by both patterns
    "private header in its own module": ("net/a.cc", '#include "kvist/net/loop.h"\n', CMAKE, 0),
    "private header of another module": ("worker/a.cc", '#include "kvist/net/loop.h"\n', CMAKE, 1),
    "thread below net": ("kv/a.cc", "#include <thread>\n", CMAKE, 1),
    "file outside every module": ("utils/a.h", "", CMAKE, 1),
}

failed = 0
for name, (path, text, cmake, expected) in CASES.items():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for file, content in {**PRIVATE_HEADERS, path: text}.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(content)
        (root / "CMakeLists.txt").write_text(cmake)
        problems = check_includes.check(root)
        if len(problems) != expected:
            failed += 1
            print(f"{name}: expected {expected} problems, got {problems}")
print(f"{len(CASES) - failed} passed, {failed} failed")
sys.exit(1 if failed else 0)
