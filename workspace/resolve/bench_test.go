package resolve

import (
	"fmt"
	"testing"
)

// BenchmarkForOneOfThousandClusters is what the hub pays for each cluster after a commit: a thousand services, each
// templated from the cluster's facts, all of whose files are known already.
func BenchmarkForOneOfThousandClusters(b *testing.B) {
	const n = 1000
	contents := map[string]string{"plural.yaml": workspaceYAML}
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		contents["clusters/"+name+".yaml"] = cluster(name, "{tags: {env: prod}, parameters: {domain: example.com}}")
		contents["services/"+name+".yaml"] = service(name, "{source: {path: apps/"+name+
			"}, clusters: {matchLabels: {env: prod}}, parameters: {replicas: '3', host: '{{ .cluster.name }}.{{ .cluster.parameters.domain }}'}}")
		contents["apps/"+name+"/kustomization.yaml"] = "resources: [../base/x.yaml]\n"
	}
	contents["apps/base/x.yaml"] = "a: 1\n"
	snap := worktree(b, contents)
	f, r, src := load(b, snap), New(), repos{"": snap}
	for i := 0; b.Loop(); i++ {
		list, err := r.For(f, f.Clusters[i%n].Metadata.Name, src)
		if err != nil || len(list) != n || list[0].Hold != nil {
			b.Fatalf("%d deployments, %v", len(list), err)
		}
	}
}
