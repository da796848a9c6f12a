package charts

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shout is a plugin that knows one object.
const shout = `#!/bin/sh
printf '{"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": [
  {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shouted"}}]}'
`

const shouted = `apiVersion: plural.sh/v1alpha1
kind: Service
metadata: {name: shouted}
spec: {source: {path: apps/shouted}, renderer: RENDERER, namespace: NAMESPACE, clusters: {names: [mgmt]}}
`

func TestAPackagedAgentRendersByThePluginsOfAnImageThatWereAgreedTo(t *testing.T) {
	image := t.TempDir() // what the image has
	for _, name := range []string{"shout", "whisper"} {
		if err := os.WriteFile(filepath.Join(image, name), []byte(shout+"# "+name+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	v := agentValues("0.1.0")
	v["plugins"] = values{
		"image": pluginImage + ":1", "folder": image,
		"digests": values{"shout": fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(shout+"# shout\n")))},
	}
	f := installWith(t, values{}, v)
	manifest, err := os.ReadFile(filepath.Join(f.repo, "plural.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f.write("plural.yaml", append(manifest, "  plugins: [{name: shout}, {name: whisper}]\n"...))
	f.write("apps/shouted/any.txt", []byte("loud\n"))
	service := strings.ReplaceAll(shouted, "NAMESPACE", f.Namespace)
	f.write("services/shouted.yaml", []byte(strings.ReplaceAll(service, "RENDERER", "whisper")))
	f.push()
	f.eventually("a plugin that nobody agreed to is refused", func() bool {
		s := f.seen("shouted")
		return s.Phase == "failed" && strings.Contains(s.Message, "not the program that was agreed to")
	})
	f.write("services/shouted.yaml", []byte(strings.ReplaceAll(service, "RENDERER", "shout")))
	f.push()
	f.eventually("the plugin renders", func() bool {
		_, err := f.resource("v1", "ConfigMap", f.Namespace).Get(f.Context(), "shouted", metav1.GetOptions{})
		return err == nil && f.seen("shouted").well()
	})
}
