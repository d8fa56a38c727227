#!/usr/bin/python3
"""Prints the resources of a project and Nova's records of a server as JSON, as evidence for tests. Some commands change
something, as another client of the cloud does.

    records.py CLOUDS.YAML CLOUD inventory       ids and names of all resources of the project
    records.py CLOUDS.YAML CLOUD server ID       the server
    records.py CLOUDS.YAML CLOUD actions ID      the instance actions of a server, newest first
    records.py CLOUDS.YAML CLOUD console ID      the last lines of the console of a server
    records.py CLOUDS.YAML CLOUD ports ID        the ports of a server
    records.py CLOUDS.YAML CLOUD stop ID         stops a server, as another client of Nova does
    records.py CLOUDS.YAML CLOUD quota [NUMBER]  the limit of instances of the project; CLOUD-admin sets it first if a number is given
    records.py CLOUDS.YAML CLOUD credential NAME makes an application credential of the user, and prints it with its secret
    records.py CLOUDS.YAML CLOUD revoke ID       deletes an application credential of the user
    records.py CLOUDS.YAML CLOUD grant ROLE      gives the user a role in the project, as CLOUD-admin
    records.py CLOUDS.YAML CLOUD withdraw ROLE   takes it away
    records.py CLOUDS.YAML CLOUD load-balancers  the load balancers of the project, with listeners, pools and members
    records.py CLOUDS.YAML CLOUD tokens NAME     makes a domain with a user of the same name, as CLOUD-admin, and prints tokens of each kind
    records.py CLOUDS.YAML CLOUD end TOKEN       revokes a token
    records.py CLOUDS.YAML CLOUD remove NAME     deletes what `tokens NAME` has made
"""
import json
import sys
import urllib.error
import urllib.parse
import urllib.request

import yaml

# Tags need 2.26, and events of other users' actions need 2.62. Zed supports up to 2.93.
MICROVERSION = '2.79'

# Path in the access rule of an application credential. No other rule of the lab has it.
RULE_PATH = '/apis/cluster.x-k8s.io/*/namespaces/{namespace}/machines'


def call(method, url, token=None, body=None, service=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {'Content-Type': 'application/json'}
    if service == 'compute':
        headers['OpenStack-API-Version'] = f'compute {MICROVERSION}'
    if token:
        headers['X-Auth-Token'] = token
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
        return answer.headers, json.loads(text) if text else {}


def log_in(url, method, value, scope=None):
    auth = {'identity': {'methods': [method], method: value}}
    if scope:
        auth['scope'] = scope
    headers, answer = call('POST', url + '/auth/tokens', body={'auth': auth})
    return headers['X-Subject-Token'], answer


class Project:
    def __init__(self, path, name):
        cloud = yaml.safe_load(open(path))['clouds'][name]
        auth = cloud['auth']
        self.login = {'name': auth['username'], 'password': auth['password'],
                      'domain': {'name': auth.get('user_domain_name', 'Default')}}
        self.scope = {'project': {'name': auth['project_name'],
                                  'domain': {'name': auth.get('project_domain_name', 'Default')}}}
        url = auth['auth_url'].rstrip('/')
        url = url if url.endswith('/v3') else url + '/v3'
        self.token, answer = log_in(url, 'password', {'user': self.login}, self.scope)
        self.id = answer['token']['project']['id']
        self.user = answer['token']['user']['id']
        self.identity = url
        self.credentials = f'{url}/users/{self.user}/application_credentials'
        self.urls = {}
        for service in answer['token']['catalog']:
            for endpoint in service['endpoints']:
                if endpoint['interface'] == 'public':
                    self.urls[service['type']] = endpoint['url'].rstrip('/')

    def get(self, service, path):
        url = self.urls[service]
        if service == 'network' and not url.endswith('/v2.0'):
            url += '/v2.0'
        return call('GET', url + path, self.token, service=service)[1]

    def post(self, service, path, body):
        return call('POST', self.urls[service] + path, self.token, body, service)[1]

    def quota(self):
        return self.get('compute', f'/os-quota-sets/{self.id}')['quota_set']['instances']

    def set_quota(self, project, limit):
        body = {'quota_set': {'instances': int(limit), 'force': True}}
        call('PUT', self.urls['compute'] + f'/os-quota-sets/{project}', self.token, body, 'compute')

    def credential(self, name):
        body = {'application_credential': {'name': name, 'unrestricted': True}}
        return call('POST', self.credentials, self.token, body)[1]['application_credential']

    def revoke(self, id):
        return call('DELETE', f'{self.credentials}/{id}', self.token)[1]

    def change_role(self, method, project, name):
        path = f'/projects/{project.id}/users/{project.user}/roles/{self.role(name)}'
        return call(method, self.identity + path, self.token)[1]

    def role(self, name):
        return call('GET', f'{self.identity}/roles?name={name}', self.token)[1]['roles'][0]['id']

    def make(self, path, kind, **fields):
        return call('POST', self.identity + path, self.token, {kind: fields})[1][kind]

    def restricted_credential(self, name, **fields):
        made = self.make(f'/users/{self.user}/application_credentials', 'application_credential', name=name, **fields)
        value = {'id': made['id'], 'secret': made['secret']}
        return made['id'], log_in(self.identity, 'application_credential', value)[0]

    def tokens(self, admin, name):
        """Makes another user with the name of this one, in a domain of its own, and logs in both in each way."""
        domain = admin.make('/domains', 'domain', name=name)['id']
        login = dict(self.login, domain={'name': name})
        other = admin.make('/users', 'user', name=login['name'], password=login['password'], domain_id=domain)['id']
        for scope in (f'/domains/{domain}', '/system'):
            path = f'{scope}/users/{other}/roles/{admin.role("reader")}'
            call('PUT', admin.identity + path, admin.token)
        trust = {'trustor_user_id': self.user, 'trustee_user_id': other, 'project_id': self.id,
                 'roles': [{'name': 'member'}]}
        trusts = {kind: self.make('/OS-TRUST/trusts', 'trust', impersonation=kind == 'impersonating', **trust)['id']
                  for kind in ('trust', 'impersonating')}
        own = lambda scope: log_in(self.identity, 'password', {'user': self.login}, scope)[0]
        foreign = lambda scope: log_in(self.identity, 'password', {'user': login}, scope)[0]
        tokens = {kind: own(self.scope) for kind in ('password', 'revoked', 'revoked-later', 'unknown')}
        tokens.update({kind: foreign({'OS-TRUST:trust': {'id': id}}) for kind, id in trusts.items()})
        tokens['unscoped'] = own('unscoped')
        tokens['domain'] = foreign({'domain': {'id': domain}})
        tokens['system'] = foreign({'system': {'all': True}})
        credential, tokens['restricted'] = self.restricted_credential(f'{name} restricted', roles=[{'name': 'member'}])
        for kind, service in (('access-rules', 'container-infra'), ('foreign-rules', 'compute')):
            rules = [{'service': service, 'method': 'GET', 'path': RULE_PATH}]
            tokens[kind] = self.restricted_credential(f'{name} {kind}', access_rules=rules)[1]
        return {'project': self.id, 'user': self.user, 'domain': domain, 'other': other, 'credential': credential,
                'tokens': tokens}

    def end(self, token):
        request = urllib.request.Request(self.identity + '/auth/tokens', method='DELETE',
                                         headers={'X-Auth-Token': token, 'X-Subject-Token': token})
        urllib.request.urlopen(request, timeout=60).close()

    def remove(self, admin, name):
        """Deletes what `tokens` has made, also a part of it."""
        delete = lambda owner, path: call('DELETE', owner.identity + path, owner.token)
        own = f'/users/{self.user}'
        listed = lambda owner, path, kind: call('GET', owner.identity + path, owner.token)[1][kind]
        for it in listed(self, f'{own}/application_credentials', 'application_credentials'):
            if it['name'].startswith(f'{name} '):
                delete(self, f'{own}/application_credentials/{it["id"]}')
        for it in listed(self, f'{own}/access_rules', 'access_rules'):
            if it['path'] == RULE_PATH:
                delete(self, f'{own}/access_rules/{it["id"]}')
        for domain in listed(admin, f'/domains?name={urllib.parse.quote(name, safe="")}', 'domains'):
            users = {it['id'] for it in listed(admin, f'/users?domain_id={domain["id"]}', 'users')}
            for it in listed(self, f'/OS-TRUST/trusts?trustor_user_id={self.user}', 'trusts'):
                if it['trustee_user_id'] in users:
                    delete(self, f'/OS-TRUST/trusts/{it["id"]}')
            path = f'/domains/{domain["id"]}'
            # Keystone deletes only a domain that is disabled.
            call('PATCH', admin.identity + path, admin.token, {'domain': {'enabled': False}})
            delete(admin, path)

    def load_balancers(self):
        found = self.get('load-balancer', f'/v2/lbaas/loadbalancers?project_id={self.id}')['loadbalancers']
        status = lambda it: self.get('load-balancer', f'/v2/lbaas/loadbalancers/{it["id"]}/status')
        return [status(it)['statuses']['loadbalancer'] for it in found]

    def inventory(self):
        # With an administrator's token the lists contain all projects, and with a member's token also shared resources.
        own = f'?project_id={self.id}'
        neutron = {'networks': 'networks', 'subnets': 'subnets', 'routers': 'routers', 'ports': 'ports',
                   'security-groups': 'security_groups', 'security-group-rules': 'security_group_rules',
                   'floatingips': 'floatingips'}
        found = {path: self.get('network', f'/{path}{own}')[key] for path, key in neutron.items()}
        found['servers'] = self.get('compute', '/servers/detail')['servers']
        cinder = 'volumev3' if 'volumev3' in self.urls else 'block-storage'
        if cinder in self.urls:
            found['volumes'] = self.get(cinder, '/volumes/detail')['volumes']
        if 'load-balancer' in self.urls:
            found['load-balancers'] = self.get('load-balancer', f'/v2/lbaas/loadbalancers{own}')['loadbalancers']
        name = lambda it: it.get('name') or it.get('floating_ip_address') or it.get('description') or ''
        return {kind: sorted([it['id'], name(it)] for it in things) for kind, things in found.items()}


def main():
    path, cloud, what, *rest = sys.argv[1:]
    project = Project(path, cloud)
    if what == 'inventory':
        result = project.inventory()
    elif what == 'server':
        result = project.get('compute', f'/servers/{rest[0]}')['server']
    elif what == 'actions':
        result = project.get('compute', f'/servers/{rest[0]}/os-instance-actions')['instanceActions']
    elif what == 'console':
        body = {'os-getConsoleOutput': {'length': 40}}
        result = project.post('compute', f'/servers/{rest[0]}/action', body)['output']
    elif what == 'ports':
        result = project.get('network', f'/ports?device_id={rest[0]}')['ports']
    elif what == 'stop':
        result = project.post('compute', f'/servers/{rest[0]}/action', {'os-stop': None})
    elif what == 'quota':
        if rest:
            Project(path, f'{cloud}-admin').set_quota(project.id, rest[0])
        result = project.quota()
    elif what == 'credential':
        result = project.credential(rest[0])
    elif what == 'revoke':
        result = project.revoke(rest[0])
    elif what in ('grant', 'withdraw'):
        method = 'PUT' if what == 'grant' else 'DELETE'
        result = Project(path, f'{cloud}-admin').change_role(method, project, rest[0])
    elif what == 'load-balancers':
        result = project.load_balancers()
    elif what == 'tokens':
        admin = Project(path, f'{cloud}-admin')
        # An earlier run may have been interrupted.
        project.remove(admin, rest[0])
        result = project.tokens(admin, rest[0])
    elif what == 'end':
        result = project.end(rest[0])
    elif what == 'remove':
        result = project.remove(Project(path, f'{cloud}-admin'), rest[0])
    else:
        sys.exit(__doc__)
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == '__main__':
    try:
        main()
    except urllib.error.HTTPError as error:
        sys.exit(f'{error.url}: {error.code} {error.read().decode(errors="replace")}')
