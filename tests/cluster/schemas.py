"""The API server's own description of its objects as JSON schemas, in the layout that kubeconform looks for."""
import json
import pathlib
import re

INT_OR_STRING = {"oneOf": [{"type": "string"}, {"type": "integer"}]}


def strict(schema):
    """Fields that the description does not have are refused, as the API server warns of them."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        return INT_OR_STRING
    made = {key: strict(value) if key not in ("enum", "default") else value for key, value in schema.items() if not key.startswith("x-")}
    if "$ref" in made:
        return {"$ref": made["$ref"]}
    if isinstance(made.get("properties"), dict) and "additionalProperties" not in made and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made["additionalProperties"] = False
    return made


def needed(name, definitions):
    """The definitions that this one leads to, itself among them."""
    found, waiting = {}, [name]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found[each] = definitions[each]
            waiting += re.findall(r'"#/definitions/([^"]+)"', json.dumps(definitions[each]))
    return found


def write(openapi, folder):
    """Returns the template by which kubeconform finds a kind's schema. Each file is whole."""
    folder = pathlib.Path(folder)
    folder.mkdir()
    definitions = {name: strict(schema) for name, schema in openapi["definitions"].items()}
    for name, schema in openapi["definitions"].items():
        for kind in schema.get("x-kubernetes-group-version-kind", []):
            group = kind["group"].split(".")[0]
            suffix = f"-{group}-{kind['version']}" if group else f"-{kind['version']}"
            target = folder / f"{kind['kind'].lower()}{suffix}.json"
            target.write_text(json.dumps({"$ref": f"#/definitions/{name}", "definitions": needed(name, definitions)}))
    return str(folder / "{{.ResourceKind}}{{.KindSuffix}}.json")
