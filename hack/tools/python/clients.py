"""Compatibility test with Python programs: list, watch, create, patch and delete, typed and dynamic."""

import sys
import threading

from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException

GROUP, VERSION, PLURAL = "cluster.x-k8s.io", "v1beta2", "clusters"


def cluster(name):
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Cluster",
        "metadata": {"name": name, "labels": {"by": "python"}},
        "spec": {"paused": True},
    }


def remove(objects, namespace, name):
    try:
        objects.delete_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, name)
    except ApiException as error:
        if error.status != 404:
            raise


def custom_objects(objects, namespace):
    remove(objects, namespace, "typed")
    listed = objects.list_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL)
    seen = []

    def follow():
        stream = watch.Watch().stream(
            objects.list_namespaced_custom_object, GROUP, VERSION, namespace, PLURAL,
            resource_version=listed["metadata"]["resourceVersion"], timeout_seconds=20,
            field_selector="metadata.name=typed",
        )
        for event in stream:
            seen.append(event["type"])
            if event["type"] == "DELETED":
                return

    follower = threading.Thread(target=follow)
    follower.start()
    objects.create_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, cluster("typed"))
    patched = objects.patch_namespaced_custom_object(
        GROUP, VERSION, namespace, PLURAL, "typed", {"metadata": {"labels": {"patched": "yes"}}}
    )
    assert patched["metadata"]["labels"] == {"by": "python", "patched": "yes"}, patched["metadata"]
    try:
        objects.create_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, cluster("typed"))
        raise AssertionError("created twice")
    except ApiException as error:
        assert error.status == 409 and "AlreadyExists" in error.body, error.body
    remove(objects, namespace, "typed")
    follower.join()
    # The server's own controllers write status in between.
    assert (seen[0], set(seen[1:-1]), seen[-1]) == ("ADDED", {"MODIFIED"}, "DELETED"), seen


def dynamic_client(api, namespace):
    clusters = dynamic.DynamicClient(api).resources.get(api_version=f"{GROUP}/{VERSION}", kind="Cluster")
    made = clusters.server_side_apply(
        namespace=namespace, name="dynamic", body=cluster("dynamic"), field_manager="python"
    )
    assert made.metadata.managedFields[0].manager == "python", made.metadata.managedFields
    assert clusters.get(namespace=namespace, name="dynamic").spec.paused is True
    names = [each.metadata.name for each in clusters.get(namespace=namespace, label_selector="by=python").items]
    assert names == ["dynamic"], names
    clusters.delete(namespace=namespace, name="dynamic")


def main(kubeconfig, namespace):
    config.load_kube_config(kubeconfig)
    api = client.ApiClient()
    custom_objects(client.CustomObjectsApi(api), namespace)
    dynamic_client(api, namespace)
    print("ok      python: objects are written, watched, applied and deleted")


main(*sys.argv[1:])
