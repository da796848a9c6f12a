package apiproxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/pluralsh/plural/agent/apiproxy"
	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
)

func TestOnlyWhatTheAPIServerKnowsIsAskedOnAConnectionOfItsOwn(t *testing.T) {
	rt := through(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.ProtoMajor) })
	for target, want := range map[string]string{
		"GET /api/v1/namespaces/x/pods/y":                 "1",
		"HEAD /api/v1/namespaces/x/pods/y":                "",
		"GET /apis/apps/v1":                               "1",
		"GET /version":                                    "1",
		"GET /api/v1/namespaces/x/pods/y/log":             "2",
		"GET /api/v1/namespaces/x/services/y/proxy/":      "2",
		"GET /debug/pprof/profile":                        "2",
		"GET /apix":                                       "2",
		"POST /api/v1/namespaces/x/pods":                  "2",
		"DELETE /api/v1/namespaces/x/pods/y":              "2",
		"GET /api/v1/pods?watch=1":                        "2",
		"GET /api/v1/namespaces/x/pods/y/log?follow=true": "2",
	} {
		method, path, _ := strings.Cut(target, " ")
		r := ask(t.Context(), t, ana(), method, path, "")
		if strings.Contains(path, "watch=") || strings.Contains(path, "follow=") {
			r = r.WithContext(httpstream.WithCall(r.Context(), httpstream.Call{ID: "a", Identity: ana(), Class: tunnelapi.Class_WATCH}))
		}
		if got := do(t, rt, r); got.Status != http.StatusOK || got.Body != want {
			t.Errorf("%s: %d over HTTP/%s, expected HTTP/%s", target, got.Status, got.Body, want)
		}
	}
}

func TestAShortAnswerOfUnknownLengthIsOneMessage(t *testing.T) {
	o, _ := options(server(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "a")
		_ = http.NewResponseController(w).Flush()
		fmt.Fprint(w, "b")
	}), apiproxy.Policy{})
	stream, err := hub(t, handler(t, o)).Proxy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&tunnelapi.Frame{Request: &tunnelapi.RequestHead{
		Id: "a", Method: http.MethodGet, Target: "/api/v1/pods", Class: tunnelapi.Class_UNARY, Identity: ana(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := stream.Recv(); err != nil || string(got.GetData()) != "ab" || got.GetResponse() == nil || got.GetTrailer() == nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestMoreQuestionsThanConnectionsShareOne(t *testing.T) {
	const all = 40
	arrived, answer := make(chan string, all), make(chan struct{})
	rt := through(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- r.Proto
		<-answer
		fmt.Fprint(w, "ok")
	})
	asking := func() (wait func()) {
		var running sync.WaitGroup
		for range all {
			r := ask(t.Context(), t, ana(), http.MethodGet, "/api/v1/pods", "")
			running.Go(func() { answered200(t, rt, r) })
		}
		return running.Wait
	}
	wait := asking()
	by := map[string]int{}
	for range all {
		by[<-arrived]++
	}
	if by["HTTP/1.1"] != 4 || by["HTTP/2.0"] != all-4 {
		t.Errorf("questions came by %v", by)
	}
	close(answer)
	wait()
	asking()() // places were given back
	again := map[string]int{}
	for range all {
		again[<-arrived]++
	}
	if again["HTTP/1.1"] == 0 {
		t.Errorf("questions came by %v afterwards", again)
	}
}

func answered200(t *testing.T, rt *httpstream.Transport, r *http.Request) {
	t.Helper()
	response, err := rt.RoundTrip(r)
	if err != nil {
		t.Error(err)
		return
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("answered %s", response.Status)
	}
}
