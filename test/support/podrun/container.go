package podrun

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// runtimeProgram starts containers out of bundles, without a daemon.
const runtimeProgram = "runc"

// container is one that an OCI runtime runs: in namespaces of its own but for the network, with the pod's user and rights.
type container struct {
	pod    *pod
	id     string
	bundle string
}

// newContainer makes the bundle of a container: the image's files, what the pod mounts, and who its process is.
func (p *pod) newContainer(c *corev1.Container, program Program, folders map[string]string, s *scene) (*container, error) {
	i, err := openImage(program.Layout)
	if err != nil {
		return nil, err
	}
	made := &container{pod: p, id: string(p.object.UID) + "-" + c.Name, bundle: filepath.Join(p.dir, "containers", c.Name)}
	root := filepath.Join(made.bundle, "rootfs")
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) { // it is started for the first time
		if err := i.unpack(root); err != nil {
			return nil, fmt.Errorf("unpack %s: %w", program.Layout, err)
		}
	}
	command, args := i.config.Entrypoint, i.config.Cmd
	if len(c.Command) > 0 {
		command, args = c.Command, nil
	}
	if len(c.Args) > 0 {
		args = c.Args
	}
	var argv []string
	for _, word := range slices.Concat(command, args, program.Args) {
		argv = append(argv, s.argument(word))
	}
	user, err := p.user(c, i.config.User)
	if err != nil {
		return nil, err
	}
	mounts, err := p.mounts(c, folders)
	if err != nil {
		return nil, err
	}
	own := cmp.Or(c.SecurityContext, &corev1.SecurityContext{})
	none := []string{}
	spec := map[string]any{
		"ociVersion": "1.0.2",
		"process": map[string]any{
			"args": argv, "env": environment(s.env), "cwd": cmp.Or(c.WorkingDir, i.config.WorkingDir, "/"), "user": user,
			"noNewPrivileges": own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation,
			"capabilities": map[string]any{
				"bounding": none, "effective": none, "inheritable": none, "permitted": none, "ambient": none,
			},
		},
		"root":     map[string]any{"path": "rootfs", "readonly": own.ReadOnlyRootFilesystem != nil && *own.ReadOnlyRootFilesystem},
		"hostname": p.name,
		"mounts":   mounts,
		"linux": map[string]any{
			"namespaces": []any{kind("pid"), kind("mount"), kind("ipc"), kind("uts")},
			"maskedPaths": []string{
				"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug", "/sys/firmware",
			},
			"readonlyPaths": []string{"/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	return made, os.WriteFile(filepath.Join(made.bundle, "config.json"), text, 0o600)
}

func kind(of string) map[string]any { return map[string]any{"type": of} }

// user is who a container's process is, by number: the pod says so before the image does.
func (p *pod) user(c *corev1.Container, ofImage string) (map[string]any, error) {
	ofPod, own := cmp.Or(p.object.Spec.SecurityContext, &corev1.PodSecurityContext{}), cmp.Or(c.SecurityContext, &corev1.SecurityContext{})
	if own.Capabilities == nil || !slices.Contains(own.Capabilities.Drop, "ALL") || len(own.Capabilities.Add) > 0 {
		return nil, fmt.Errorf("container %s: only containers that drop all capabilities are played from images", c.Name)
	}
	first, second, _ := strings.Cut(ofImage, ":")
	uid, err := strconv.ParseInt(cmp.Or(first, "0"), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("container %s: the image's user %q is not a number, which runAsNonRoot wants", c.Name, ofImage)
	}
	gid, err := strconv.ParseInt(cmp.Or(second, "0"), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("container %s: the image's group %q is not a number", c.Name, second)
	}
	if said := cmp.Or(own.RunAsUser, ofPod.RunAsUser); said != nil {
		uid = *said
	}
	if said := cmp.Or(own.RunAsGroup, ofPod.RunAsGroup); said != nil {
		gid = *said
	}
	if nonRoot := cmp.Or(own.RunAsNonRoot, ofPod.RunAsNonRoot); nonRoot != nil && *nonRoot && uid == 0 {
		return nil, fmt.Errorf("container %s: it has runAsNonRoot, and would run as root", c.Name)
	}
	groups := slices.Clone(ofPod.SupplementalGroups)
	if ofPod.FSGroup != nil {
		groups = append(groups, *ofPod.FSGroup)
	}
	return map[string]any{"uid": uid, "gid": gid, "additionalGids": groups}, nil
}

// mounts are those that each container has, and the pod's volumes, outer ones first.
func (p *pod) mounts(c *corev1.Container, folders map[string]string) ([]any, error) {
	system := func(at, kind string, options ...string) any {
		return map[string]any{"destination": at, "type": kind, "source": kind, "options": options}
	}
	mounts := []any{
		system("/proc", "proc", "nosuid", "noexec", "nodev"),
		system("/dev", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
		system("/dev/shm", "tmpfs", "nosuid", "noexec", "nodev", "mode=1777", "size=65536k"),
		system("/sys", "sysfs", "nosuid", "noexec", "nodev", "ro"),
		bind("/etc/hosts", "/etc/hosts", true), bind("/etc/resolv.conf", "/etc/resolv.conf", true),
	}
	volumes := slices.Clone(c.VolumeMounts)
	slices.SortFunc(volumes, func(a, b corev1.VolumeMount) int {
		return strings.Compare(path.Clean(a.MountPath), path.Clean(b.MountPath))
	})
	for _, m := range volumes {
		at := slices.IndexFunc(p.object.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if at < 0 {
			return nil, fmt.Errorf("container %s mounts %q, which is no volume of the pod", c.Name, m.Name)
		}
		v := &p.object.Spec.Volumes[at]
		written := v.EmptyDir != nil || v.PersistentVolumeClaim != nil
		if err := p.own(folders[m.Name], written); err != nil {
			return nil, fmt.Errorf("volume %s: %w", m.Name, err)
		}
		from := filepath.Join(folders[m.Name], filepath.FromSlash(m.SubPath))
		mounts = append(mounts, bind(from, path.Clean(m.MountPath), m.ReadOnly || !written))
	}
	return mounts, nil
}

func bind(from, at string, readOnly bool) any {
	options := []string{"rbind", "rprivate", "nosuid", "nodev"}
	if readOnly {
		options = append(options, "ro")
	}
	return map[string]any{"destination": at, "type": "bind", "source": from, "options": options}
}

// own gives a volume to the pod's fsGroup, unless it is that already: what the pod wrote stays as it wrote it.
func (p *pod) own(folder string, written bool) error {
	of := p.object.Spec.SecurityContext
	if of == nil || of.FSGroup == nil {
		return nil
	}
	info, err := os.Stat(folder)
	if err != nil {
		return err
	}
	if is, ok := info.Sys().(*syscall.Stat_t); ok && int64(is.Gid) == *of.FSGroup {
		return nil
	}
	return filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode() | 0o440
		if written {
			mode |= 0o660
		}
		if d.IsDir() {
			mode |= 0o110 | fs.ModeSetgid
		}
		return errors.Join(os.Lchown(name, -1, int(*of.FSGroup)), os.Chmod(name, mode)) //nolint:gosec // the pod does not run yet
	})
}

// state is where the runtime keeps what it knows of the containers of a node.
func (n *Node) state() string { return filepath.Join(n.Dir, "runtime") }

// command runs the container until it ends.
func (c *container) command() []string {
	return []string{runtimeProgram, "--root", c.pod.state(), "run", "--bundle", c.bundle, "--pid-file", filepath.Join(c.bundle, "pid"), c.id}
}

// remove ends what is left of it: the runtime may have been killed.
func (c *container) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, runtimeProgram, "--root", c.pod.state(), "delete", "--force", c.id).CombinedOutput()
	if err != nil && !bytes.Contains(out, []byte("does not exist")) {
		c.pod.log("podrun: remove container %s: %v: %s", c.id, err, out)
	}
}

// PID is the process of a container of an image, as this machine counts; false when it does not run.
func (n *Node) PID(namespace, pod, container string) (int, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if p.namespace != namespace || p.name != pod {
			continue
		}
		text, err := os.ReadFile(filepath.Join(p.dir, "containers", container, "pid"))
		if err != nil {
			return 0, false
		}
		pid, err := strconv.Atoi(string(text))
		return pid, err == nil
	}
	return 0, false
}
