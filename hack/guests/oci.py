#!/usr/bin/env python3
"""Writes a container image as an OCI archive with one layer, which `ctr images import` reads.

    oci.py OUT.tar NAME:TAG [--entrypoint ARG]... [--tree FOLDER]... [--file SOURCE=DESTINATION]...
"""
import argparse
import hashlib
import io
import json
import os
import tarfile

MEDIA = 'application/vnd.oci.image.'
PATH = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
CREATED = '2026-01-01T00:00:00Z'   # fixed, so that equal content has an equal digest


def anonymous(entry):
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ''
    entry.mtime = 0
    return entry


class Layer:
    def __init__(self):
        self.data = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.data, mode='w', format=tarfile.GNU_FORMAT)
        self.names = set()

    def folder(self, name, mode=0o755):
        if name and name not in self.names:
            self.folder(os.path.dirname(name))
            self.names.add(name)
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            self.tar.addfile(entry)

    def add(self, source, name):
        if name not in self.names:
            self.folder(os.path.dirname(name))
            self.names.add(name)
            self.tar.add(source, name, recursive=False, filter=anonymous)

    def tree(self, top):
        for folder, folders, files in os.walk(top):
            folders.sort()
            for name in sorted(files) + folders:
                source = os.path.join(folder, name)
                self.add(source, os.path.relpath(source, top))

    def finish(self):
        self.folder('tmp', 0o1777)
        self.folder('etc')
        self.tar.close()
        return self.data.getvalue()


class Archive:
    def __init__(self, path):
        self.tar = tarfile.open(path, 'w', format=tarfile.GNU_FORMAT)

    def write(self, name, data):
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(data), 0o644
        self.tar.addfile(entry, io.BytesIO(data))

    def blob(self, data, media):
        digest = hashlib.sha256(data).hexdigest()
        self.write(f'blobs/sha256/{digest}', data)
        return {'mediaType': MEDIA + media, 'digest': f'sha256:{digest}', 'size': len(data)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('out')
    parser.add_argument('name')
    for option in ('entrypoint', 'tree', 'file'):
        parser.add_argument(f'--{option}', action='append', default=[])
    arguments = parser.parse_args()
    layer = Layer()
    for top in arguments.tree:
        layer.tree(top)
    for pair in arguments.file:
        source, name = pair.split('=', 1)
        layer.add(source, name)
    archive = Archive(arguments.out)
    content = archive.blob(layer.finish(), 'layer.v1.tar')
    config = archive.blob(json.dumps({
        'architecture': 'amd64', 'os': 'linux', 'created': CREATED,
        'config': {'Entrypoint': arguments.entrypoint, 'Env': [PATH], 'WorkingDir': '/'},
        'rootfs': {'type': 'layers', 'diff_ids': [content['digest']]}}).encode(), 'config.v1+json')
    manifest = archive.blob(json.dumps({
        'schemaVersion': 2, 'mediaType': MEDIA + 'manifest.v1+json', 'config': config,
        'layers': [content]}).encode(), 'manifest.v1+json')
    manifest['annotations'] = {'io.containerd.image.name': arguments.name,
                               'org.opencontainers.image.ref.name': arguments.name.rsplit(':', 1)[1]}
    archive.write('oci-layout', b'{"imageLayoutVersion":"1.0.0"}')
    archive.write('index.json', json.dumps({'schemaVersion': 2, 'manifests': [manifest]}).encode())
    archive.tar.close()


main()
