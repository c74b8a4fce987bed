"""Checks references to files, in Markdown and comments, against the files of the tree.

  1. A relative link or image in Markdown leads to a file or folder, and its #anchor to a heading of that page.
  2. A path in Markdown or a C++ comment that begins with a folder of the root (docs/..., scripts/...) is there; `*` and `{a,b}`
     match as in a shell.
  3. A source file that Markdown or a C++ comment names by its end (kv_policy.h, routing/kv_policy.h, check_includes.py) is there,
     somewhere.
  4. A function that Markdown names with its file (`gateway/proxy.cc:Proxy::handle`) is in that file, and one that it names with its
     class (`Proxy::handle`) in a file that has the class.
  5. A page that a script, a setting or an example names by its path (docs/guide/routing.md) is there; only those of docs/results may
     have yet to be written, by the script that names them.
"""
import os
import pathlib
import re
import sys

# Not the project's files: built, fetched or generated ones.
SKIPPED = {".git", "build", "out", "node_modules", "__pycache__", ".cache"}
# Folders of the root; a path that begins with one of them must exist.
FOLDERS = "benchmarks|cmake|data|docs|examples|scripts|src|tests"
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
FENCE = re.compile(r"^\s*(```|~~~)")
CODE = re.compile(r"`[^`]*`")
PATH = re.compile(r"(?<![\w./*{}<>$-])(?:%s)/[\w./*{},+-]*[\w*}/]" % FOLDERS)
# Kinds that only the project has; files of a run (report.md, sweep.yaml, results.sqlite) need not exist.
ENDING = re.compile(r"(?<![\w./*{}<>$:-])[\w./-]*\w\.(?:h|cc|py|mjs|cmake)(?![\w/-]|\.\w)")
FUNCTION_OF_FILE = re.compile(r"`([\w./]+\.(?:h|cc|py)):((?:\w+::)*~?\w+)`")
FUNCTION_OF_CLASS = re.compile(r"`((?:[A-Z]\w*::)+~?\w+)(?:\([^`]*\))?`")
PAGE = re.compile(r"(?<![\w./-])docs/[\w./-]*\.(?:md|svg|png)(?!\w)")
CLASS = re.compile(r"\b(?:(?:class|struct|enum class|enum)\s+(?:\w+::)*|(?=[A-Z]\w*::~?\w+))([A-Z]\w*)")
CPP = {".h", ".cc"}
# In a page that has its reader write files: their names. Not read at all: recordings of other programs, and names that are made up to be missing.
WRITTEN_BY_READER = re.compile(r"<!-- written by the reader: (.*?) -->")
UNREAD = re.compile(r"tests/golden/(?!.*\.md$)|tests/architecture/check_(?:documents|headlines)_test\.py")
TEXTS = {".py", ".mjs", ".yaml", ".yml", ".cmake", ".txt", ".json", ".toml", ""}


def files_of(root):
    """Every file of the project, relative to its root."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        found += [(pathlib.Path(folder) / name).relative_to(root) for name in sorted(names)]
    return found


def anchors_of(text):
    """The anchors that a renderer makes of a page's headings."""
    anchors, fenced = set(), False
    for line in text.splitlines():
        if FENCE.match(line):
            fenced = not fenced
        heading = re.match(r"#{1,6}\s+(.*?)\s*#*\s*$", line)
        if heading and not fenced:
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).lower()
            slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            count = 0
            while (slug if count == 0 else f"{slug}-{count}") in anchors:
                count += 1
            anchors.add(slug if count == 0 else f"{slug}-{count}")
    return anchors


def expanded(path):
    """`a/{b,c}.h` as a/b.h and a/c.h."""
    braces = re.search(r"\{([^{}]*)\}", path)
    if not braces:
        return [path]
    return [one for choice in braces.group(1).split(",")
            for one in expanded(path[:braces.start()] + choice + path[braces.end():])]


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.files = files_of(self.root)
        self.names = {}  # last component -> the paths that end with it
        for path in self.files:
            self.names.setdefault(path.name, []).append(path.as_posix())
        self.texts = {}
        self.files_with = {}  # class -> the C++ files that declare it or define its members
        for path in self.files:
            if path.suffix in CPP:
                for owner in set(CLASS.findall(self.text_of(path.as_posix()))):
                    self.files_with.setdefault(owner, []).append(path.as_posix())

    def has(self, path):
        return all(next(self.root.glob(one.rstrip("/")), None) for one in expanded(path))

    def has_ending(self, path):
        return any(("/" + known).endswith("/" + path) for known in self.names.get(path.rsplit("/", 1)[-1], []))

    def problems_of_link(self, page, target):
        if re.match(r"[a-z][a-z+.-]*:", target):
            return []
        path, _, anchor = target.partition("#")
        to = pathlib.Path(os.path.normpath(page.parent / path)) if path else page
        if to.parts[:1] == ("..",) or not (self.root / to).exists():
            return [f"the link {target} leads nowhere"]
        if anchor and to.suffix == ".md" and anchor not in anchors_of((self.root / to).read_text()):
            return [f"the link {target} names a heading that {to} does not have"]
        return []

    def text_of(self, path):
        if path not in self.texts:
            self.texts[path] = (self.root / path).read_text()
        return self.texts[path]

    def has_function(self, file, name):
        """Whether the file, or the header beside it, has `name(`; of Class::function a header has the two apart."""
        last = name.rsplit("::", 1)[-1]
        for path in self.names.get(file.rsplit("/", 1)[-1], []):
            if ("/" + path).endswith("/" + file):
                wanted = name if path.endswith(".cc") else last
                if re.search(r"(?<![\w:])%s(?=\()" % re.escape(wanted), self.text_of(path)):
                    return True
        return False

    def has_member(self, name):
        """Whether a C++ file that has the class, or defines its members, has the function, type or value."""
        owner, last = name.split("::")[-2:]
        return any(re.search(r"\b%s\b" % re.escape(last), self.text_of(path)) for path in self.files_with.get(owner, []))

    def problems_of_functions(self, line):
        missing = [f"{file} has no function {name}" for file, name in FUNCTION_OF_FILE.findall(line)
                   if not self.has_function(file, name)]
        return missing + [f"there is no {name}" for name in FUNCTION_OF_CLASS.findall(line) if not self.has_member(name)]

    def problems_of_prose(self, text):
        missing = [f"{path} is not there" for path in PATH.findall(text) if not self.has(path)]
        return missing + [f"no file ends with {path}" for path in ENDING.findall(PATH.sub("", text)) if not self.has_ending(path)]

    def problems_of_page(self, page):
        problems, fenced = [], False
        text = (self.root / page).read_text()
        excused = " ".join(WRITTEN_BY_READER.findall(text)).split()
        for number, line in enumerate(text.splitlines(), start=1):
            fenced = fenced != bool(FENCE.match(line))
            prose = line if fenced else CODE.sub("", line)
            found = [] if fenced else [p for target in LINK.findall(prose) for p in self.problems_of_link(page, target)]
            found += self.problems_of_functions(line)
            found += self.problems_of_prose(LINK.sub("]", line))
            problems += [f"{page}:{number}: {problem}" for problem in found if not any(name in problem for name in excused)]
        return problems

    def problems_of_cpp(self, path):
        lines = enumerate((self.root / path).read_text().splitlines(), start=1)
        return [f"{path}:{number}: {problem}" for number, line in lines
                for problem in self.problems_of_prose(re.sub(r"^.*?(?<!:)//|^.*", "", line))]

    def problems_of_text(self, path):
        try:
            lines = (self.root / path).read_text().splitlines()
        except UnicodeDecodeError:
            return []
        scripts = path.parts[0] in ("scripts", "benchmarks")
        return [f"{path}:{number}: {page} is not there" for number, line in enumerate(lines, start=1)
                for page in PAGE.findall(line) if not self.has(page) and not (scripts and page.startswith("docs/results/"))]


def check(root):
    tree, problems = Tree(root), []
    for path in tree.files:
        if UNREAD.match(path.as_posix()):
            continue
        if path.suffix == ".md":
            problems += tree.problems_of_page(path)
        elif path.suffix in CPP:
            problems += tree.problems_of_cpp(path)
        elif path.suffix in TEXTS:
            problems += tree.problems_of_text(path)
    return problems


def main():
    problems = check(sys.argv[1])
    for problem in problems:
        print(problem)
    print(f"{len(problems)} links and mentions of what is not there")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
