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
"""
import json
import sys
import urllib.error
import urllib.request

import yaml

# Tags need 2.26, and events of other users' actions need 2.62. Zed supports up to 2.93.
MICROVERSION = '2.79'


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


class Project:
    def __init__(self, path, name):
        cloud = yaml.safe_load(open(path))['clouds'][name]
        auth = cloud['auth']
        user = {'name': auth['username'], 'password': auth['password'],
                'domain': {'name': auth.get('user_domain_name', 'Default')}}
        scope = {'project': {'name': auth['project_name'],
                             'domain': {'name': auth.get('project_domain_name', 'Default')}}}
        body = {'auth': {'identity': {'methods': ['password'], 'password': {'user': user}}, 'scope': scope}}
        url = auth['auth_url'].rstrip('/')
        url = url if url.endswith('/v3') else url + '/v3'
        headers, answer = call('POST', url + '/auth/tokens', body=body)
        self.token = headers['X-Subject-Token']
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
        role = call('GET', f'{self.identity}/roles?name={name}', self.token)[1]['roles'][0]['id']
        path = f'/projects/{project.id}/users/{project.user}/roles/{role}'
        return call(method, self.identity + path, self.token)[1]

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
    else:
        sys.exit(__doc__)
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == '__main__':
    try:
        main()
    except urllib.error.HTTPError as error:
        sys.exit(f'{error.url}: {error.code} {error.read().decode(errors="replace")}')
