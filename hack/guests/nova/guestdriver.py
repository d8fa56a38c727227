"""Nova's libvirt driver for LXC, with what a Kubernetes node in a container needs in addition.

- The root folder of a server is an overlay on the folder GUEST_ROOT. No image is downloaded or copied. The folder
  /var/lib/guest-disk of a server is on no overlay, because containerd's own overlays need such a folder.
- The property kubernetes_release of an image names the release of its servers. The folder has programs of several.
- Nova creates a config drive for LXC servers, but they cannot read it. So its content is written into the root folder,
  where cloud-init looks for it, too.
- Addresses are fixed, because this OpenStack has no DHCP agent.
- Containers in the server need all capabilities and devices.
- A server has an empty disk, DATA_DISK, for cloud-init to partition and format: a loop device of a file that goes with the
  server.
- libvirt keeps a few KB of the console of an LXC server. A reader for each server writes all of it to the file that Nova
  shows as console log.
"""
import glob
import os
import subprocess

from nova.api.metadata import base as metadata
from nova.virt.libvirt import driver
from nova.virt.libvirt import utils

GUEST_ROOT = os.environ['GUEST_ROOT']
GUEST_DISK = '/var/lib/guest-disk'
SEED = 'var/lib/cloud/seed/config_drive'
DATA_DISK = 'data-disk'
DATA_DISK_BYTES = 64 << 20   # ext4 with its default options needs a few MB


def path_of(instance, *names):
    return os.path.join(utils.get_instance_path(instance), *names)


def unmount(folder):
    while os.path.ismount(folder):
        subprocess.run(('umount', '-l', folder), check=True)


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def loop_devices(file):
    return output('losetup', '--noheadings', '--output', 'NAME', '--associated', file) if os.path.exists(file) else []


def data_disk(instance):
    """Returns the loop device of a server, which is made if there is none."""
    file = path_of(instance, DATA_DISK)
    if not os.path.exists(file):
        with open(file, 'wb') as disk:
            disk.truncate(DATA_DISK_BYTES)
    return (loop_devices(file) or output('losetup', '--find', '--show', '--partscan', file))[0]


def choose_release(rootfs, release):
    """Links kubeadm and kubelet of a release of Kubernetes, unless it is the one in /usr/bin."""
    folder = os.path.join('opt/kubernetes', release)
    if not release or not os.path.isdir(os.path.join(GUEST_ROOT, folder)):
        return
    for program in os.listdir(os.path.join(GUEST_ROOT, folder)):
        link = os.path.join(rootfs, 'usr/bin', program)
        os.remove(link)
        os.symlink(os.path.join('/', folder, program), link)


def without_dhcp(network_info):
    for vif in network_info or []:
        for subnet in vif['network']['subnets']:
            subnet['meta'].pop('dhcp_server', None)
    return network_info


class GuestDriver(driver.LibvirtDriver):
    def _create_and_inject_local_root(self, *args, **kwargs):
        return True   # the overlay is the disk

    def _create_domain_setup_lxc(self, context, instance, image_meta, block_device_info):
        for name in ('upper', 'work', 'rootfs'):
            os.makedirs(path_of(instance, name), exist_ok=True)
        options = f'lowerdir={GUEST_ROOT},upperdir={path_of(instance, "upper")},workdir={path_of(instance, "work")}'
        subprocess.run(('mount', '-t', 'overlay', 'overlay', '-o', options, path_of(instance, 'rootfs')), check=True)
        # Nova passes no name of the image, but an instance inherits the image's properties.
        choose_release(path_of(instance, 'rootfs'), instance.system_metadata.get('image_kubernetes_release', ''))

    def _create_domain_cleanup_lxc(self, instance):
        # A container that runs has its own mount namespace.
        unmount(path_of(instance, 'rootfs'))

    def _teardown_container(self, instance):
        unmount(path_of(instance, 'rootfs'))

    def delete_instance_files(self, instance):
        for device in loop_devices(path_of(instance, DATA_DISK)):
            subprocess.run(('losetup', '--detach', device), check=True)
        return super().delete_instance_files(instance)

    def _create_configdrive(self, context, instance, injection_info, rescue=False):
        seed = path_of(instance, 'rootfs', SEED)
        if os.path.exists(seed):
            return
        content = metadata.InstanceMetadata(instance, content=injection_info.files, extra_md={},
                                            network_info=without_dhcp(injection_info.network_info))
        for name, data in content.metadata_for_config_drive():
            file = os.path.join(seed, name)
            os.makedirs(os.path.dirname(file), exist_ok=True)
            with open(file, 'wb') as out:
                out.write(data if isinstance(data, bytes) else data.encode())

    def _get_guest_xml(self, context, instance, *args, **kwargs):
        xml = super()._get_guest_xml(context, instance, *args, **kwargs)
        os.makedirs(path_of(instance, 'disk'), exist_ok=True)
        with open(path_of(instance, 'disk', DATA_DISK), 'w') as name:
            name.write(data_disk(instance))   # libvirt's own way requires USB on the machine
        disk = f'<filesystem type="mount"><source dir="{path_of(instance, "disk")}"/><target dir="{GUEST_DISK}"/></filesystem>'
        xml = xml.replace('</devices>', disk + '</devices>', 1)
        xml = xml.replace('<init>/sbin/init</init>', '<init>/usr/local/sbin/guest-init</init>', 1)
        capabilities = '<capabilities policy="allow"/>'
        if '<features>' in xml:
            return xml.replace('<features>', '<features>' + capabilities, 1)
        return xml.replace('<devices>', f'<features>{capabilities}</features><devices>', 1)

    def _create_guest(self, context, xml, instance, *args, **kwargs):
        guest = super()._create_guest(context, xml, instance, *args, **kwargs)
        group = f'/sys/fs/cgroup/devices/machine/lxc-*-{guest._domain.name()}.libvirt-lxc'
        for file in glob.glob(group + '/devices.allow'):
            with open(file, 'w') as allow:
                allow.write('a')
        terminal = guest.get_xml_desc().split("<console type='pty' tty='", 1)[1].split("'", 1)[0]
        with open(self._get_console_log_path(instance), 'ab') as log:
            # The reader ends with the terminal.
            subprocess.Popen(['setsid', '-f', 'cat', terminal], stdin=subprocess.DEVNULL, stdout=log,
                             stderr=subprocess.DEVNULL)
        return guest

    def get_console_output(self, context, instance):
        return self._get_console_output_file(instance, self._get_console_log_path(instance))
