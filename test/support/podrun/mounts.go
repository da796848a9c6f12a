package podrun

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// accountFolder is where a container finds its service account.
const accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// volumes makes a folder for each volume of the pod, by name.
func (p *pod) volumes(ctx context.Context) (map[string]string, error) {
	folders := make(map[string]string, len(p.object.Spec.Volumes))
	for i := range p.object.Spec.Volumes {
		v := &p.object.Spec.Volumes[i]
		folder := filepath.Join(p.dir, "volumes", v.Name)
		if v.PersistentVolumeClaim != nil {
			var err error
			if folder, err = p.claim(ctx, v.PersistentVolumeClaim.ClaimName); err != nil {
				return nil, fmt.Errorf("volume %s: %w", v.Name, err)
			}
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
		if err := p.fill(ctx, folder, v); err != nil {
			return nil, fmt.Errorf("volume %s: %w", v.Name, err)
		}
		folders[v.Name] = folder
	}
	return folders, os.MkdirAll(p.dir, 0o700)
}

// claim is the folder of a claim. One that is deleted and made anew under its name has another, and so nothing of what it had.
func (p *pod) claim(ctx context.Context, name string) (string, error) {
	claim, err := p.kube.Resource(resourceOf("", "persistentvolumeclaims")).Namespace(p.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return filepath.Join(p.Dir, "claims", p.namespace, name+"_"+string(claim.GetUID())), nil
}

func (p *pod) fill(ctx context.Context, folder string, v *corev1.Volume) error {
	switch {
	case v.EmptyDir != nil, v.PersistentVolumeClaim != nil:
		return nil
	case v.Secret != nil:
		return p.fromData(ctx, folder, "secrets", v.Secret.SecretName, v.Secret.Items, v.Secret.Optional, v.Secret.DefaultMode)
	case v.ConfigMap != nil:
		return p.fromData(ctx, folder, "configmaps", v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional, v.ConfigMap.DefaultMode)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if err := p.project(ctx, folder, &v.Projected.Sources[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("volumes of its kind are not played here")
}

func (p *pod) project(ctx context.Context, folder string, from *corev1.VolumeProjection) error {
	switch {
	case from.Secret != nil:
		return p.fromData(ctx, folder, "secrets", from.Secret.Name, from.Secret.Items, from.Secret.Optional, nil)
	case from.ConfigMap != nil:
		return p.fromData(ctx, folder, "configmaps", from.ConfigMap.Name, from.ConfigMap.Items, from.ConfigMap.Optional, nil)
	case from.ServiceAccountToken != nil:
		token, err := p.token(ctx, from.ServiceAccountToken)
		if err != nil {
			return err
		}
		return write(folder, from.ServiceAccountToken.Path, []byte(token), 0o600)
	case from.DownwardAPI != nil:
		for _, item := range from.DownwardAPI.Items {
			if err := write(folder, item.Path, []byte(p.field(item.FieldRef)), 0o600); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("projections of its kind are not played here")
}

// write puts a file in the place of another; files that nobody may write are replaced all the same.
func write(folder, name string, content []byte, mode os.FileMode) error {
	file := filepath.Join(folder, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	temp := file + ".new"
	_ = os.Remove(temp) // what an earlier try left
	if err := os.WriteFile(temp, content, mode); err != nil {
		return err
	}
	return os.Rename(temp, file)
}

// data is what a Secret or a ConfigMap holds; nil when there is none.
func (p *pod) data(ctx context.Context, plural, name string) (map[string][]byte, error) {
	object, err := p.kube.Resource(resourceOf("", plural)).Namespace(p.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	texts, _, _ := unstructured.NestedStringMap(object.Object, "data")
	data := make(map[string][]byte, len(texts))
	for key, text := range texts {
		data[key] = []byte(text)
		if plural == "secrets" {
			if data[key], err = base64.StdEncoding.DecodeString(text); err != nil {
				return nil, err
			}
		}
	}
	return data, nil
}

func (p *pod) fromData(
	ctx context.Context, folder, plural, name string, items []corev1.KeyToPath, optional *bool, mode *int32,
) error {
	may := optional != nil && *optional
	data, err := p.data(ctx, plural, name)
	if err != nil && !may {
		return err
	}
	if len(items) == 0 {
		for _, key := range slices.Sorted(maps.Keys(data)) {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok && may {
			continue
		}
		if !ok {
			return fmt.Errorf("%s %s has no key %q", plural, name, item.Key)
		}
		bits := os.FileMode(0o600)
		if chosen := cmp.Or(item.Mode, mode); chosen != nil {
			bits = os.FileMode(*chosen).Perm()
		}
		if err := write(folder, item.Path, value, bits); err != nil {
			return err
		}
	}
	return nil
}

// token is one of the pod's service account, bound to the pod.
func (p *pod) token(ctx context.Context, want *corev1.ServiceAccountTokenProjection) (string, error) {
	spec := map[string]any{
		"expirationSeconds": int64(3600),
		"boundObjectRef": map[string]any{
			"kind": "Pod", "apiVersion": "v1", "name": p.name, "uid": string(p.object.UID),
		},
	}
	if want.Audience != "" {
		spec["audiences"] = []any{want.Audience}
	}
	request := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec,
		"metadata": map[string]any{"name": cmp.Or(p.object.Spec.ServiceAccountName, "default")},
	}}
	accounts := p.kube.Resource(resourceOf("", "serviceaccounts")).Namespace(p.namespace)
	answer, err := accounts.Create(ctx, request, metav1.CreateOptions{}, "token")
	if err != nil {
		return "", fmt.Errorf("ask for a token of the service account: %w", err)
	}
	token, _, _ := unstructured.NestedString(answer.Object, "status", "token")
	return token, nil
}

// field is what a field reference of the downward API says.
func (p *pod) field(ref *corev1.ObjectFieldSelector) string {
	if ref == nil {
		return ""
	}
	object, err := generic(p.object, "v1", "Pod")
	if err != nil {
		return ""
	}
	switch ref.FieldPath {
	case "status.podIP":
		return p.ip()
	case "spec.nodeName":
		return p.Node.name
	}
	if name, ok := strings.CutSuffix(ref.FieldPath, "']"); ok {
		kind, key, _ := strings.Cut(name, "['")
		value, _, _ := unstructured.NestedString(object.Object, append(strings.Split(kind, "."), key)...)
		return value
	}
	value, _, _ := unstructured.NestedString(object.Object, strings.Split(ref.FieldPath, ".")...)
	return value
}

// scene is what a container's arguments and environment are about.
func (p *pod) scene(ctx context.Context, c *corev1.Container, program Program, folders map[string]string) (*scene, error) {
	s := &scene{
		names: p.names, namespace: p.namespace, name: p.name, ports: portsOf(c), folders: map[string]string{},
		env: map[string]string{
			"HOSTNAME": p.name, "HTTP_PROXY": p.Proxy(), "HTTPS_PROXY": p.Proxy(), "NO_PROXY": "127.0.0.1,localhost",
		},
	}
	if program.Layout != "" {
		i, err := openImage(program.Layout)
		if err != nil {
			return nil, err
		}
		for _, variable := range i.config.Env {
			name, value, _ := strings.Cut(variable, "=")
			s.env[name] = value
		}
		return s, p.environment(ctx, c, s) // it sees its volumes where the pod mounts them
	}
	s.env["PATH"], s.env["HOME"], s.env["TMPDIR"] = os.Getenv("PATH"), p.dir, p.dir
	for _, m := range c.VolumeMounts {
		s.folders[path.Clean(m.MountPath)] = filepath.Join(folders[m.Name], filepath.FromSlash(m.SubPath))
	}
	if tmp, ok := s.folders["/tmp"]; ok {
		s.env["TMPDIR"] = tmp
	}
	if account, ok := s.folders[accountFolder]; ok {
		if err := p.kubeconfig(account); err != nil {
			return nil, err
		}
	}
	if err := p.environment(ctx, c, s); err != nil {
		return nil, err
	}
	return s, nil
}

// environment adds what the container's manifest says.
func (p *pod) environment(ctx context.Context, c *corev1.Container, s *scene) error {
	host, port, _ := strings.Cut(strings.TrimPrefix(p.Kube.Host, "https://"), ":")
	s.env["KUBERNETES_SERVICE_HOST"], s.env["KUBERNETES_SERVICE_PORT"] = host, port
	for _, from := range c.EnvFrom {
		plural, name, optional := "configmaps", "", (*bool)(nil)
		if from.ConfigMapRef != nil {
			name, optional = from.ConfigMapRef.Name, from.ConfigMapRef.Optional
		}
		if from.SecretRef != nil {
			plural, name, optional = "secrets", from.SecretRef.Name, from.SecretRef.Optional
		}
		data, err := p.data(ctx, plural, name)
		if err != nil && (optional == nil || !*optional) {
			return err
		}
		for key, value := range data {
			s.env[from.Prefix+key] = string(value)
		}
	}
	for _, e := range c.Env {
		value, ok, err := p.variable(ctx, e, s)
		if err != nil {
			return fmt.Errorf("environment %s: %w", e.Name, err)
		}
		if ok {
			s.env[e.Name] = value
		}
	}
	return nil
}

func (p *pod) variable(ctx context.Context, e corev1.EnvVar, s *scene) (value string, ok bool, err error) {
	from := e.ValueFrom
	switch {
	case from == nil:
		return s.value(expand(e.Value, s.env)), true, nil
	case from.FieldRef != nil:
		return p.field(from.FieldRef), true, nil
	case from.SecretKeyRef != nil:
		return p.dataKey(ctx, "secrets", from.SecretKeyRef.Name, from.SecretKeyRef.Key, from.SecretKeyRef.Optional)
	case from.ConfigMapKeyRef != nil:
		return p.dataKey(ctx, "configmaps", from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Optional)
	}
	return "", false, nil
}

func (p *pod) dataKey(ctx context.Context, plural, name, key string, optional *bool) (string, bool, error) {
	may := optional != nil && *optional
	data, err := p.data(ctx, plural, name)
	if err != nil {
		if may {
			err = nil
		}
		return "", false, err
	}
	value, ok := data[key]
	if !ok && !may {
		return "", false, fmt.Errorf("%s %s has no key %q", plural, name, key)
	}
	return string(value), ok, nil
}

// kubeconfig has the rights of the pod's service account, whose folder is given.
func (p *pod) kubeconfig(account string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["pod"] = &clientcmdapi.Cluster{Server: p.Kube.Host, CertificateAuthority: filepath.Join(account, "ca.crt")}
	config.AuthInfos["pod"] = &clientcmdapi.AuthInfo{TokenFile: filepath.Join(account, "token")}
	config.Contexts["pod"] = &clientcmdapi.Context{Cluster: "pod", AuthInfo: "pod", Namespace: p.namespace}
	config.CurrentContext = "pod"
	return clientcmd.WriteToFile(*config, filepath.Join(p.dir, "kubeconfig"))
}
