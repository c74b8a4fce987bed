"""The kind of object DynamoGraphDeployment, as far as the tests use it. The lists are merged by name, as in the published definition of v1beta1."""

GROUP = "nvidia.com"
NAMED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
OPEN = {"x-kubernetes-preserve-unknown-fields": True}


def named_list(properties):
    return {"type": "array", "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, **properties}, **OPEN}, **NAMED}


DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"dynamographdeployments.{GROUP}"},
    "spec": {"group": GROUP, "scope": "Namespaced",
             "names": {"plural": "dynamographdeployments", "singular": "dynamographdeployment", "kind": "DynamoGraphDeployment",
                       "listKind": "DynamoGraphDeploymentList"},
             "versions": [{"name": "v1beta1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {
                 "type": "object", "properties": {
                     "spec": {"type": "object", **OPEN, "properties": {"components": named_list({"podTemplate": {
                         "type": "object", **OPEN, "properties": {"spec": {"type": "object", **OPEN, "properties": {
                             "containers": named_list({"env": named_list({"value": {"type": "string"}})})}}}}})}},
                     "status": {"type": "object", **OPEN}}}}}]}}
