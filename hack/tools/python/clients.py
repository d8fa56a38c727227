"""Compatibility test of the Python client: CustomObjectsApi and the dynamic client, with watch and apply.

With a third argument, PyJWT also verifies a token of a service account in that namespace.
"""

import base64
import json
import sys
import threading

import jwt
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


def published(api):
    """Reads the discovery document and the keys, as another program finds them."""
    discovery = client.WellKnownApi(api).get_service_account_issuer_open_id_configuration(_preload_content=False)
    discovery = json.loads(discovery.data)
    assert discovery["jwks_uri"] == discovery["issuer"] + "/openid/v1/jwks", discovery
    keys = client.OpenidApi(api).get_service_account_issuer_open_id_keyset(_preload_content=False)
    return discovery, jwt.PyJWKSet.from_dict(json.loads(keys.data))


def with_subject(token, subject):
    """Returns a token with another subject and the old signature."""
    head, payload, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    claims["sub"] = subject
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"{head}.{payload}.{signature}"


def verify_tokens(api, namespace):
    core, name, audience = client.CoreV1Api(api), "verified-by-python", "dashboard"
    account = client.V1ServiceAccount(
        api_version="v1", kind="ServiceAccount", metadata=client.V1ObjectMeta(name=name)
    )
    uid = core.create_namespaced_service_account(namespace, account).metadata.uid
    request = client.AuthenticationV1TokenRequest(
        api_version="authentication.k8s.io/v1", kind="TokenRequest",
        spec=client.V1TokenRequestSpec(audiences=[audience], expiration_seconds=600),
    )
    token = core.create_namespaced_service_account_token(name, namespace, request).status.token
    discovery, keys = published(api)

    def verify(token, audience):
        key = keys[jwt.get_unverified_header(token)["kid"]]
        return jwt.decode(
            token, key, algorithms=discovery["id_token_signing_alg_values_supported"], audience=audience,
            issuer=discovery["issuer"], options={"require": ["aud", "exp", "iat", "iss", "jti", "nbf", "sub"]},
        )

    claims = verify(token, audience)
    assert claims["sub"] == f"system:serviceaccount:{namespace}:{name}", claims
    assert claims["kubernetes.io"]["serviceaccount"] == {"name": name, "uid": uid}, claims
    assert claims["exp"] - claims["iat"] == 600, claims
    other = with_subject(token, f"system:serviceaccount:{namespace}:other")
    for wrong, wanted, expected in [
        (other, audience, jwt.InvalidSignatureError),
        (token, "another-dashboard", jwt.InvalidAudienceError),
    ]:
        try:
            verify(wrong, wanted)
        except expected:
            continue
        raise AssertionError(f"PyJWT accepts a token that it must refuse with {expected.__name__}")
    core.delete_namespaced_service_account(name, namespace)


def main(kubeconfig, namespace, accounts=None):
    config.load_kube_config(kubeconfig)
    api = client.ApiClient()
    custom_objects(client.CustomObjectsApi(api), namespace)
    dynamic_client(api, namespace)
    print("ok      python: create, watch, patch, server-side apply and delete work")
    if accounts is not None:
        verify_tokens(api, accounts)
        print("ok      python: PyJWT verifies a token by the published keys, and refuses a changed one")


main(*sys.argv[1:])
