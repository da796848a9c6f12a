package charts

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pluralsh/plural/agent/identity"
)

// What the agent of a lost hub knows after its pod was made anew is what its volume holds.
func TestAnAgentWithAVolumeHealsWithoutItsHubAfterItsPodIsMadeAnew(t *testing.T) {
	f := install(t, values{})
	f.loseHub()
	f.restartAgent("what it said last is healed meanwhile")
	f.eventually("what drifted is healed", func() bool { return f.drifted() == "" })
	f.drift()
	f.eventually("what drifts later is healed", func() bool { return f.drifted() == "" })
}

func TestAnAgentWithoutAVolumeSaysThatItHealsNothingAfterItsPodIsMadeAnew(t *testing.T) {
	without := agentValues("0.1.0")
	without["persistence"] = values{"enabled": "false"}
	f := installWith(t, values{}, without)
	f.loseHub()
	f.restartAgent("the data folder was empty when the agent started, so nothing is healed until then")
	if f.drifted() == "" {
		t.Error("it heals what it cannot know of")
	}
	f.scaleHub(1)
	f.eventually("what drifted is healed once the hub is back", func() bool { return f.drifted() == "" })
}

// Two pods can have a claim that is ReadWriteOnce on one node alone: the real scheduler picks it, though there is more room elsewhere.
func TestTheSuccessorOfAnAgentWithAVolumeStartsBesideItOnItsNode(t *testing.T) {
	c := newCluster(t)
	nodeOf := func(tag string) (node string) {
		c.eventually(tag+" has a node", func() bool {
			for _, p := range c.pods("plural-agent") {
				if strings.HasSuffix(p.Spec.Containers[0].Image, ":"+tag) {
					node = p.Spec.NodeName
				}
			}
			return node != ""
		})
		return node
	}
	upgrade := func(tag string) []*unstructured.Unstructured {
		objects, err := chart(t, "agent", agentValues(tag))
		if err != nil {
			t.Fatal(err)
		}
		c.apply(objects)
		return objects
	}
	upgrade("0.1.0")
	node := nodeOf("0.1.0")
	object, err := c.resource("v1", "Node", "").Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	room, _, _ := unstructured.NestedStringMap(object.Object, "status", "allocatable")
	half := func(kind string) string {
		all := resource.MustParse(room[kind])
		return resource.NewMilliQuantity(all.MilliValue()/2, all.Format).String()
	}
	filler := &unstructured.Unstructured{Object: values{
		"apiVersion": "v1", "kind": "Pod", "metadata": values{"name": "filler", "namespace": c.Namespace},
		"spec": values{"nodeName": node, "containers": []any{values{
			"name": "filler", "image": "registry.example.com/filler:1",
			"resources": values{"requests": values{"cpu": half("cpu"), "memory": half("memory")}},
		}}},
	}}
	c.apply([]*unstructured.Unstructured{filler})
	objects := upgrade("0.1.1")
	if next := nodeOf("0.1.1"); next != node {
		t.Errorf("the agent is on %s, its successor on %s", node, next)
	}
	c.delete(append(objects, filler))
}

// loseHub has the agent deliver something, ends the hub, and changes what was delivered.
func (f *fleet) loseHub() {
	f.Helper()
	f.eventually("the agent is well", func() bool { return f.seen("agent").well() })
	f.write("services/more.yaml", bytes.ReplaceAll([]byte(more), []byte("NAMESPACE"), []byte(f.Namespace)))
	f.write("apps/more/config.yaml", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\ndata: {color: green}\n"))
	f.push()
	f.eventually("it is delivered", func() bool { return f.seen("more").well() })
	f.scaleHub(0)
	f.eventually("the hub is gone", func() bool { return len(f.pods("plural-hub")) == 0 })
}

func (f *fleet) scaleHub(replicas int) {
	f.Helper()
	patch := fmt.Appendf(nil, `{"spec": {"replicas": %d}}`, replicas)
	set := f.resource("apps/v1", "StatefulSet", identity.Namespace)
	if _, err := set.Patch(f.Context(), "plural-hub", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		f.Fatal(err)
	}
}

// drift changes what was delivered, drifted is what was changed.
func (f *fleet) drift() {
	f.Helper()
	patch := []byte(`{"data": {"color": "red"}}`)
	if _, err := f.resource("v1", "ConfigMap", f.Namespace).Patch(f.Context(), "more", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		f.Fatal(err)
	}
}

func (f *fleet) drifted() string {
	config, err := f.resource("v1", "ConfigMap", f.Namespace).Get(f.Context(), "more", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	data, _ := config.Object["data"].(values)
	if data["color"] == "green" {
		return ""
	}
	return "it is " + data["color"].(string)
}

// restartAgent deletes the agent's pod, has something drift while there is none, and waits until the new one says why it is not ready.
func (f *fleet) restartAgent(says string) {
	f.Helper()
	before := f.pods("plural-agent")[0].Name
	if err := f.resource("v1", "Pod", identity.Namespace).Delete(f.Context(), before, metav1.DeleteOptions{}); err != nil {
		f.Fatal(err)
	}
	f.eventually("the agent's pod is gone", func() bool {
		_, err := f.resource("v1", "Pod", identity.Namespace).Get(f.Context(), before, metav1.GetOptions{})
		return err != nil
	})
	f.drift()
	client := http.Client{Timeout: 5 * time.Second}
	said := ""
	f.eventually("the new one says what it waits for", func() bool {
		pods := f.pods("plural-agent")
		if len(pods) != 1 || pods[0].Name == before {
			return false
		}
		response, err := client.Get("http://" + f.node.Address(identity.Namespace, pods[0].Name, 8081) + "/readyz")
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		said = string(text)
		return err == nil && response.StatusCode == http.StatusServiceUnavailable && strings.Contains(said, says)
	})
}
