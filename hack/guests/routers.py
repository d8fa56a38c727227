#!/usr/bin/python3
"""Connects the networks of guests with floating IPs, as Neutron's L3 agent does.

    routers.py HOME        until SIGTERM
    routers.py HOME stop   deletes all namespaces and bridges

Each Neutron router whose network has guests on this machine gets a network namespace. In it, each floating IP is
translated to the address of its port. The machine has the address of the external network's gateway, so it reaches
floating IPs. Nothing leaves the machine. The state is read from Neutron's database twice a second.
"""
import os
import signal
import subprocess
import sys
import time

import pymysql

HOME = sys.argv[1]
EXTERNAL_BRIDGE = 'br-guests'
# Prefix of the namespaces of these routers. Neutron's own agent calls them qrouter-ID.
NAMESPACE = 'guests-'
INTERVAL = 0.5   # seconds

PORTS = """
select p.device_id, p.device_owner, p.id, p.network_id, a.ip_address, s.cidr, s.gateway_ip
from ports p join ipallocations a on a.port_id = p.id join subnets s on s.id = a.subnet_id
where p.device_owner in ('network:router_interface', 'network:router_gateway') order by p.id
"""
FLOATING_IPS = """
select router_id, floating_ip_address, fixed_ip_address from floatingips where fixed_port_id is not null
order by floating_ip_address
"""


def run(*command, check=True, text=None):
    return subprocess.run(command, check=check, input=text, text=True, capture_output=True)


def exists(device):
    return os.path.exists('/sys/class/net/' + device)


def bridge_of(network):
    return 'brq' + network[:11]


def is_empty(bridge):
    return not os.listdir(f'/sys/class/net/{bridge}/brif')


class Router:
    """Namespace of one Neutron router."""

    def __init__(self, key):
        self.namespace = NAMESPACE + key
        self.connected = {}   # port: (device on the machine, bridge)
        self.rules = None
        self.targets = {}
        run('ip', 'netns', 'add', self.namespace)
        self.inside('ip', 'link', 'set', 'lo', 'up')
        self.inside('sysctl', '-qw', 'net.ipv4.ip_forward=1')

    def inside(self, *command, check=True, text=None):
        return run('ip', 'netns', 'exec', self.namespace, *command, check=check, text=text)

    def connect(self, port, bridge, address, gateway=None):
        if port in self.connected:
            return
        outer, inner = 'gt' + port[:11], 'gr' + port[:11]
        run('ip', 'link', 'add', outer, 'type', 'veth', 'peer', 'name', inner, 'netns', self.namespace)
        run('ip', 'link', 'set', outer, 'master', bridge, 'up')
        self.inside('ip', 'addr', 'add', address, 'dev', inner)
        self.inside('ip', 'link', 'set', inner, 'up')
        if gateway:
            self.inside('ip', 'route', 'replace', 'default', 'via', gateway)
        self.connected[port] = (outer, bridge)

    def translate(self, external, subnets, targets):
        """Replaces all rules. Old connections of a floating IP that has moved must not stay with the old server."""
        forward = ''.join(f'ip daddr {ip} dnat to {fixed}\n' for ip, fixed in targets.items())
        # Answers to a guest in the same network must come back through the router.
        hairpin = ''.join(f'ct status dnat ip saddr {subnet} ip daddr {subnet} masquerade\n' for subnet in subnets)
        back = ''.join(f'oifname "{external}" ip saddr {fixed} snat to {ip}\n' for ip, fixed in targets.items())
        rules = f"""
table ip guests
delete table ip guests
table ip guests {{
  chain incoming {{ type nat hook prerouting priority dstnat
    {forward} }}
  chain outgoing {{ type nat hook postrouting priority srcnat
    {hairpin} {back} oifname "{external}" masquerade
  }}
}}
"""
        if rules == self.rules:
            return
        for ip in targets:
            self.inside('ip', 'addr', 'replace', ip + '/32', 'dev', external)
        for ip in set(self.targets) - set(targets):
            self.inside('ip', 'addr', 'del', ip + '/32', 'dev', external, check=False)
        self.inside('nft', '-f', '-', text=rules)
        for ip, fixed in self.targets.items():
            if targets.get(ip) != fixed:
                self.inside('conntrack', '-D', '-d', ip, check=False)
        self.rules, self.targets = rules, targets

    def delete(self):
        run('ip', 'netns', 'del', self.namespace, check=False)
        for outer, bridge in self.connected.values():
            run('ip', 'link', 'del', outer, check=False)
            if bridge != EXTERNAL_BRIDGE and exists(bridge) and is_empty(bridge):
                run('ip', 'link', 'del', bridge, check=False)


class Agent:
    def __init__(self):
        self.database = pymysql.connect(unix_socket=f'{HOME}/run/mysqld.sock', user='root', database='neutron',
                                        autocommit=True)
        self.routers = {}

    def rows(self, query):
        with self.database.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchall()

    def step(self):
        wanted = {}
        for router, owner, port, network, address, cidr, gateway in self.rows(PORTS):
            parts = wanted.setdefault(router, ([], []))
            is_gateway = owner == 'network:router_gateway'
            parts[is_gateway].append((port, network, f'{address}/{cidr.split("/")[1]}', cidr, gateway))
        wanted = {key: parts for key, parts in wanted.items()
                  if parts[1] and any(exists(bridge_of(part[1])) for part in parts[0])}
        for key in set(self.routers) - set(wanted):
            self.routers.pop(key).delete()
        floating = self.rows(FLOATING_IPS)
        for key, (interfaces, [(port, _, address, cidr, gateway), *_]) in wanted.items():
            router = self.routers.get(key) or self.routers.setdefault(key, Router(key))
            external(gateway, cidr)
            router.connect(port, EXTERNAL_BRIDGE, address, gateway)
            for inner, network, inner_address, _, _ in interfaces:
                if exists(bridge_of(network)):
                    router.connect(inner, bridge_of(network), inner_address)
            subnets = [it[3] for it in interfaces]
            targets = {ip: fixed for owner, ip, fixed in floating if owner == key}
            router.translate('gr' + port[:11], subnets, targets)

    def run(self):
        while True:
            try:
                self.step()
            except subprocess.CalledProcessError as error:   # the next step tries again
                print(error, error.stderr, flush=True)
            time.sleep(INTERVAL)


def external(gateway, cidr):
    if not exists(EXTERNAL_BRIDGE):
        run('ip', 'link', 'add', EXTERNAL_BRIDGE, 'type', 'bridge')
        run('ip', 'addr', 'add', f'{gateway}/{cidr.split("/")[1]}', 'dev', EXTERNAL_BRIDGE)
        run('ip', 'link', 'set', EXTERNAL_BRIDGE, 'up')


def stop():
    names = run('ip', 'netns', 'list').stdout.split('\n')
    for name in [line.split()[0] for line in names if line.startswith(NAMESPACE)]:
        run('ip', 'netns', 'del', name, check=False)
    for device in os.listdir('/sys/class/net'):
        if device == EXTERNAL_BRIDGE:
            run('ip', 'link', 'del', device, check=False)


if sys.argv[2:] == ['stop']:
    stop()
else:
    stop()   # a killed agent leaves its namespaces
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    Agent().run()
