package deploy

import "fmt"

// application is the manifests of one small application, as the published figures of others have it: a Deployment that
// runs nothing, with a ServiceAccount, a Service and an Ingress.
func application(name, version string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, labels: {app.kubernetes.io/name: %[1]s, app.kubernetes.io/version: %[2]q}}
spec:
  replicas: 0
  selector: {matchLabels: {app.kubernetes.io/name: %[1]s}}
  template:
    metadata: {labels: {app.kubernetes.io/name: %[1]s}}
    spec:
      serviceAccountName: %[1]s
      containers:
      - name: main
        image: ghcr.io/example/%[1]s:%[2]s
        ports: [{name: http, containerPort: 8080}]
        env: [{name: VERSION, value: %[2]q}]
        resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 64Mi}}
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec:
  selector: {app.kubernetes.io/name: %[1]s}
  ports: [{name: http, port: 80, targetPort: http}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s}
spec:
  rules:
  - host: %[1]s.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: %[1]s, port: {name: http}}}}]}
`, name, version)
}

func configMapText(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {value: %q}\n", name, value)
}
