"""Compatibility test of the Python client: CustomObjectsApi and the dynamic client, with watch and apply."""

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
    event_types = []

    def watch_events():
        stream = watch.Watch().stream(
            objects.list_namespaced_custom_object, GROUP, VERSION, namespace, PLURAL,
            resource_version=listed["metadata"]["resourceVersion"], timeout_seconds=20,
            field_selector="metadata.name=typed",
        )
        for event in stream:
            event_types.append(event["type"])
            if event["type"] == "DELETED":
                return

    watcher = threading.Thread(target=watch_events)
    watcher.start()
    objects.create_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, cluster("typed"))
    patched = objects.patch_namespaced_custom_object(
        GROUP, VERSION, namespace, PLURAL, "typed", {"metadata": {"labels": {"patched": "yes"}}}
    )
    assert patched["metadata"]["labels"] == {"by": "python", "patched": "yes"}, patched["metadata"]
    try:
        objects.create_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, cluster("typed"))
        raise AssertionError("a second create of the same object succeeded")
    except ApiException as error:
        assert error.status == 409 and "AlreadyExists" in error.body, error.body
    remove(objects, namespace, "typed")
    watcher.join()
    # Capstan's controllers also update the status, so there may be several MODIFIED events.
    found = (event_types[0], set(event_types[1:-1]), event_types[-1])
    assert found == ("ADDED", {"MODIFIED"}, "DELETED"), event_types


def dynamic_client(api, namespace):
    clusters = dynamic.DynamicClient(api).resources.get(api_version=f"{GROUP}/{VERSION}", kind="Cluster")
    created = clusters.server_side_apply(
        namespace=namespace, name="dynamic", body=cluster("dynamic"), field_manager="python"
    )
    assert created.metadata.managedFields[0].manager == "python", created.metadata.managedFields
    assert clusters.get(namespace=namespace, name="dynamic").spec.paused is True
    names = [each.metadata.name for each in clusters.get(namespace=namespace, label_selector="by=python").items]
    assert names == ["dynamic"], names
    clusters.delete(namespace=namespace, name="dynamic")


def main(kubeconfig, namespace):
    config.load_kube_config(kubeconfig)
    api = client.ApiClient()
    custom_objects(client.CustomObjectsApi(api), namespace)
    dynamic_client(api, namespace)
    print("ok      python: create, watch, patch, server-side apply and delete work")


main(*sys.argv[1:])
