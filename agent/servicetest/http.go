package servicetest

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxBody is how much of a Service's answer is looked at, in bytes.
const maxBody = 1 << 20

// dialer is net.Dialer's DialContext.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// http asks a Service, and holds the answer against what is wanted.
func (a attempt) http(ctx context.Context, want HTTP, dial dialer) outcome {
	namespace, err := a.namespace(want.Namespace)
	if err != nil {
		return outcome{err: err}
	}
	want.Namespace = namespace
	if err := want.check(); err != nil {
		return outcome{err: err}
	}
	var answer *http.Response
	if want.ByName {
		answer, err = a.byName(ctx, want, dial)
	} else {
		answer, err = a.byProxy(ctx, want)
	}
	if err != nil {
		return outcome{err: because(ctx, err)}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBody))
	log := a.target.excerpt(string(body), err != nil || len(body) == maxBody, maxLog)
	if err != nil {
		return outcome{log, fmt.Errorf("read answer: %w", because(ctx, err))}
	}
	return outcome{log, want.judge(answer, body)}
}

// judge holds an answer against what is wanted.
func (h HTTP) judge(answer *http.Response, body []byte) error {
	if !h.ByName && answer.StatusCode >= http.StatusBadRequest {
		// The API server speaks for itself in its own words: no such Service, nobody behind it, not allowed.
		var said metav1.Status
		if json.Unmarshal(body, &said) == nil && said.Kind == "Status" && said.APIVersion == "v1" {
			return fmt.Errorf("the API server answers %d: %s", answer.StatusCode, said.Message)
		}
	}
	switch {
	case h.Status != 0 && answer.StatusCode != h.Status:
		return fmt.Errorf("it answers %s, not %d", answer.Status, h.Status)
	case h.Status == 0 && answer.StatusCode/100 != 2:
		return fmt.Errorf("it answers %s, not 2xx", answer.Status)
	case !strings.Contains(string(body), h.Contains):
		return fmt.Errorf("the answer of %d bytes does not contain %q", len(body), h.Contains)
	}
	return nil
}

// byProxy asks through the API server, so it reaches a Service from wherever the agent is.
func (a attempt) byProxy(ctx context.Context, want HTTP) (*http.Response, error) {
	name := want.Service + ":" + want.Port
	if want.Scheme == "https" {
		name = "https:" + name
	}
	request, err := want.request(ctx, a.api+"/api/v1/namespaces/"+want.Namespace+"/services/"+name+"/proxy")
	if err != nil {
		return nil, err
	}
	return a.client.http.Do(request)
}

// byName asks the Service itself. Nothing of the agent's goes along.
func (a attempt) byName(ctx context.Context, want HTTP, dial dialer) (*http.Response, error) {
	port, err := a.port(ctx, want)
	if err != nil {
		return nil, err
	}
	scheme := cmp.Or(want.Scheme, "http")
	request, err := want.request(ctx, fmt.Sprintf("%s://%s.%s.svc:%d", scheme, want.Service, want.Namespace, port))
	if err != nil {
		return nil, err
	}
	if host := want.header("Host"); host != "" {
		request.Host = host
	}
	talk := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:       dial,
			DisableKeepAlives: true,
			// As the API server's proxy does: a Service's certificate is seldom from an authority that the agent knows.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above; no credentials are sent
		},
	}
	return talk.Do(request)
}

// port is the number of the Service's port: a name means nothing outside the API. A Service that is only another name for a
// host, which may be anywhere, is refused.
func (a attempt) port(ctx context.Context, want HTTP) (int, error) {
	services := a.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "services"}).Namespace(want.Namespace)
	service, err := services.Get(ctx, want.Service, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("there is no Service %s/%s", want.Namespace, want.Service)
	}
	if err != nil {
		return 0, fmt.Errorf("read Service %s/%s: %w", want.Namespace, want.Service, err)
	}
	if kind, _, _ := unstructured.NestedString(service.Object, "spec", "type"); kind == "ExternalName" {
		return 0, wrong("Service %s/%s is of type ExternalName, which leads out of the cluster: ask a Service with Pods behind it",
			want.Namespace, want.Service)
	}
	if number, err := strconv.Atoi(want.Port); err == nil {
		return number, nil
	}
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	for _, port := range ports {
		fields, _ := port.(map[string]any)
		if number, ok := fields["port"].(int64); ok && fields["name"] == want.Port {
			return int(number), nil
		}
	}
	return 0, fmt.Errorf("Service %s/%s has no port with name %q", want.Namespace, want.Service, want.Port)
}

func (h HTTP) request(ctx context.Context, base string) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, cmp.Or(h.Method, http.MethodGet), base+cmp.Or(h.Path, "/"), strings.NewReader(h.Body))
	if err != nil {
		return nil, wrong("make request: %v", err)
	}
	request.Header.Set("User-Agent", "plural-agent")
	for name, value := range h.Headers {
		request.Header.Set(name, value)
	}
	request.Header.Del("Host")
	return request, nil
}

// header is the value of a header that the test sets, however it is written.
func (h HTTP) header(name string) string {
	for key, value := range h.Headers {
		if http.CanonicalHeaderKey(key) == name {
			return value
		}
	}
	return ""
}

// check refuses what would make another request than the one that is meant: at the API server, some are the agent's own.
func (h HTTP) check() error {
	if len(validation.IsDNS1123Label(h.Service)) > 0 {
		return wrong("%q cannot be the name of a Service", h.Service)
	}
	if len(validation.IsDNS1123Label(h.Namespace)) > 0 {
		return wrong("%q cannot be the name of a namespace", h.Namespace)
	}
	if number, err := strconv.Atoi(h.Port); err == nil && (number < 1 || number > 65535) || err != nil && len(validation.IsValidPortName(h.Port)) > 0 {
		return wrong("port %q: want a number from 1 to 65535, or the name of one of the Service's ports", h.Port)
	}
	if h.Scheme != "" && h.Scheme != "http" && h.Scheme != "https" {
		return wrong("scheme %q: want http or https", h.Scheme)
	}
	if err := checkPath(h.Path); err != nil {
		return err
	}
	for name := range h.Headers {
		if err := h.checkHeader(http.CanonicalHeaderKey(name)); err != nil {
			return err
		}
	}
	return nil
}

func checkPath(path string) error {
	if path == "" {
		return nil
	}
	parsed, err := url.Parse(path)
	if err != nil || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || parsed.Host != "" {
		return wrong("path %q: want it as /PATH?QUERY", path)
	}
	if slices.ContainsFunc(strings.FieldsFunc(parsed.Path, isSlash), func(part string) bool { return part == ".." }) {
		return wrong("path %q leads out of the Service", path)
	}
	return nil
}

func isSlash(r rune) bool { return r == '/' || r == '\\' }

func (h HTTP) checkHeader(name string) error {
	switch name {
	case "Connection", "Content-Length", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return wrong("header %s is not a test's to set", name)
	}
	if h.ByName {
		return nil
	}
	own := name == "Authorization" || name == "Host" || strings.HasPrefix(name, "Impersonate-") ||
		strings.HasPrefix(name, "X-Remote-") || strings.HasPrefix(name, "Proxy-")
	if own {
		return wrong("header %s would be read by the API server: ask the Service by its name (by: cluster)", name)
	}
	return nil
}
