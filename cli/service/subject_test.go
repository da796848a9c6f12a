package service

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Two clusters show the same token with names that it does not stand for: agreeing on one must not agree on the other.
func TestWhatTheHubCannotCheckIsAgreedToOnlyWhereItsClusterIsNamed(t *testing.T) {
	held := func(token string, unchecked bool, names ...string) *v1.Waiting {
		return &v1.Waiting{Token: token, Unchecked: unchecked, Count: len(names), Names: names}
	}
	web := &v1.Service{Name: "web", Deployments: []v1.Deployment{
		{Cluster: "dev", Held: held("aaaaaaaaaaaa", true, "ConfigMap shop/old")},
		{Cluster: "prod", Held: held("aaaaaaaaaaaa", true, "PersistentVolumeClaim shop/db-0")},
		{Cluster: "edge", Held: held("bbbbbbbbbbbb", false, "ConfigMap shop/older")},
	}}
	for name, test := range map[string]struct {
		clusters, tokens, names, beside []string
	}{
		"the whole fleet": {nil, []string{"bbbbbbbbbbbb"}, []string{"ConfigMap shop/older"}, []string{"dev", "prod"}},
		"one cluster":     {[]string{"dev"}, []string{"aaaaaaaaaaaa@dev"}, []string{"ConfigMap shop/old"}, nil},
		"the other":       {[]string{"prod"}, []string{"aaaaaaaaaaaa@prod"}, []string{"PersistentVolumeClaim shop/db-0"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			found := waitingFor(web, test.clusters)
			var names []string
			for _, m := range found.chosen {
				names = append(names, m.names...)
			}
			got := [][]string{found.tokens(), names, found.uncheckedClusters()}
			if diff := cmp.Diff([][]string{test.tokens, test.names, test.beside}, got); diff != "" {
				t.Error(diff)
			}
			for _, token := range []string{"aaaaaaaaaaaa@dev", "aaaaaaaaaaaa@prod", "bbbbbbbbbbbb"} {
				if !found.waiting[token] {
					t.Errorf("%s is not known to wait: its agreement would be taken out", token)
				}
			}
		})
	}
}
