package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// proxyTrap is a proxy that the environment names, which notes what it is asked for.
func proxyTrap(t *testing.T) <-chan string {
	t.Helper()
	asked := make(chan string, 1)
	trap := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.Method + " " + r.Host:
		default: // one is enough
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(trap.Close)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		t.Setenv(name, trap.URL)
	}
	return asked
}

// webhook is a configuration that has a webhook asked about new ConfigMaps with a label of its name.
func webhook(name string, config registrationv1.WebhookClientConfig) *registrationv1.ValidatingWebhookConfiguration {
	return &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []registrationv1.ValidatingWebhook{{
			Name: name + ".example.com", ClientConfig: config, AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: new(int32(30)),
			FailurePolicy: new(registrationv1.Fail), SideEffects: new(registrationv1.SideEffectClassNone),
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"asks": name}},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Create},
				Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}
}

// serve makes a Deployment of simulated pods with a Service, and waits until that has endpoints.
func serve(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	labels := map[string]string{"app": name}
	_, err := client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
		}},
	}, metav1.CreateOptions{})
	requireCreated(t, err)
	_, err = client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{})
	requireCreated(t, err)
	awaitEndpoints(t, client, name)
}

func awaitEndpoints(t *testing.T, client kubernetes.Interface, service string) {
	t.Helper()
	eventually(t, workloadTimeout, func() error {
		slices, err := client.DiscoveryV1().EndpointSlices("default").List(t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
		if err == nil && (len(slices.Items) == 0 || len(slices.Items[0].Endpoints) == 0) {
			err = fmt.Errorf("service %s has no endpoints", service)
		}
		return err
	})
}

// ask creates a ConfigMap that a webhook is asked about.
func ask(t *testing.T, client kubernetes.Interface, webhook string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // less than a webhook may take
	defer cancel()
	_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "asks-", Labels: map[string]string{"asks": webhook}},
	}, metav1.CreateOptions{})
	return err
}

func TestWebhooksOfSimulatedPodsRefuseNothingAndLeakNoName(t *testing.T) {
	asked := proxyTrap(t)
	p := launch(t, t.TempDir(), "--log-level", "info")
	p.ready(t)
	client := p.client(t)
	serve(t, client, "hook")
	for name, config := range map[string]registrationv1.WebhookClientConfig{
		"by-service":        {Service: &registrationv1.ServiceReference{Namespace: "default", Name: "hook", Path: new("/check")}},
		"by-missing":        {Service: &registrationv1.ServiceReference{Namespace: "default", Name: "gone"}},
		"by-url":            {URL: new("https://hook.default.svc:443/check")},
		"by-a-dead-process": {URL: new("https://127.0.0.1:1/")},
	} {
		_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), webhook(name, config), metav1.CreateOptions{})
		requireCreated(t, err)
	}
	// One that is outside the cluster still decides, so that all of them are in force when it does.
	eventually(t, workloadTimeout, func() error {
		err := ask(t, client, "by-a-dead-process")
		if err == nil || !strings.Contains(err.Error(), "by-a-dead-process.example.com") {
			return fmt.Errorf("a webhook that must be asked was not: %w", err)
		}
		return nil
	})
	for _, name := range []string{"by-service", "by-missing", "by-url"} {
		if err := ask(t, client, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	kept, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "by-service", metav1.GetOptions{})
	if err != nil || *kept.Webhooks[0].FailurePolicy != registrationv1.Fail {
		t.Errorf("the configuration is not as it was written: %v %v", kept, err)
	}
	pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Fatal(pods, err)
	}
	for _, proxied := range []string{"services/https:hook:443", "pods/" + pods.Items[0].Name} {
		answer, err := client.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/default/" + proxied + "/proxy/").DoRaw(t.Context())
		if err == nil || !strings.Contains(string(answer), "no process serves") {
			t.Errorf("%s: %v: %s", proxied, err, answer)
		}
	}
	select {
	case what := <-asked:
		t.Errorf("a proxy was asked for %s", what)
	default:
	}
	_ = p.stdin.Close()
	p.exit(t, workloadTimeout)
	if log := p.stderr.String(); !strings.Contains(log, "failing open by-service.example.com") || !strings.Contains(log, "no process serves service default/hook") {
		t.Error("it is not logged that a webhook was passed over")
	}
}

// certified is the configuration of a server of some name, with the certificate that is believed of it.
func certified(t *testing.T, name string) (*tls.Config, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}, MinVersion: tls.VersionTLS12},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

func TestAProcessBehindAServiceDecides(t *testing.T) {
	own := ""
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			own = ip.IP.String()
		}
	}
	if own == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("this machine has no address but loopback")
		}
		t.Skip("NOT RUN: this machine has no address but loopback, which no Endpoint may have")
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(own, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "a process says no"}}
		_ = json.NewEncoder(w).Encode(review)
	}))
	_ = server.Listener.Close()
	server.Listener = listener
	var authority []byte
	server.TLS, authority = certified(t, "example.default.svc")
	server.StartTLS()
	t.Cleanup(server.Close)

	p := launch(t, t.TempDir())
	p.ready(t)
	client := p.client(t)
	port := int32(listener.Addr().(*net.TCPAddr).Port)
	_, err = client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "example"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{})
	requireCreated(t, err)
	_, err = client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "example-1", Labels: map[string]string{discoveryv1.LabelServiceName: "example"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{own}}},
	}, metav1.CreateOptions{})
	requireCreated(t, err)
	_, err = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), webhook("real", registrationv1.WebhookClientConfig{
		Service: &registrationv1.ServiceReference{Namespace: "default", Name: "example"}, CABundle: authority,
	}), metav1.CreateOptions{})
	requireCreated(t, err)
	eventually(t, workloadTimeout, func() error {
		if err := ask(t, client, "real"); err == nil || !strings.Contains(err.Error(), "a process says no") {
			return fmt.Errorf("the process was not asked: %w", err)
		}
		return nil
	})
}

func TestConversionsAndAPIServicesOfSimulatedPodsFailAtOnce(t *testing.T) {
	asked := proxyTrap(t)
	p := launch(t, t.TempDir())
	p.ready(t)
	client := p.client(t)
	serve(t, client, "hook")
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(p.dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	objects := dynamic.NewForConfigOrDie(config)
	create := func(resource schema.GroupVersionResource, text string) {
		t.Helper()
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		_, err := objects.Resource(resource).Create(t.Context(), object, metav1.CreateOptions{})
		requireCreated(t, err)
	}
	services := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	create(services, `{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.far.example.com"},
		"spec": {"group": "far.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": true,
		"service": {"namespace": "default", "name": "hook", "port": 443}}}`)
	create(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, `{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.near.example.com"},
		"spec": {"group": "near.example.com", "scope": "Cluster", "names": {"kind": "Thing", "plural": "things"},
		"versions": [
			{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
			{"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}}],
		"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
			"clientConfig": {"service": {"namespace": "default", "name": "hook", "port": 443}}}}}}`)
	eventually(t, workloadTimeout, func() error {
		text := `{"apiVersion": "near.example.com/v1beta1", "kind": "Thing", "metadata": {"name": "one"}}`
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON([]byte(text)); err != nil {
			return err
		}
		_, err := objects.Resource(schema.GroupVersionResource{Group: "near.example.com", Version: "v1beta1", Resource: "things"}).Create(t.Context(), object, metav1.CreateOptions{})
		if err == nil || apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "no process serves service default/hook") {
			return fmt.Errorf("conversion: %w", err)
		}
		return nil
	})
	eventually(t, workloadTimeout, func() error {
		live, err := objects.Resource(services).Get(t.Context(), "v1.far.example.com", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if text := fmt.Sprint(live.Object["status"]); !strings.Contains(text, "no process serves service default/hook") {
			return fmt.Errorf("APIService: %s", text)
		}
		return nil
	})
	if groups, _, err := client.Discovery().ServerGroupsAndResources(); len(groups) == 0 {
		t.Errorf("the rest of the API is not found: %v", err)
	}
	select {
	case what := <-asked:
		t.Errorf("a proxy was asked for %s", what)
	default:
	}
}
