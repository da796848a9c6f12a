output "name" {
  description = "The cluster's name."
  value       = google_container_cluster.this.name
}

output "endpoint" {
  description = "Where its API server is."
  value       = "https://${google_container_cluster.this.endpoint}"
}

output "ca" {
  description = "The certificate of its authority, in base64 as a kubeconfig has it."
  value       = google_container_cluster.this.master_auth[0].cluster_ca_certificate
}

output "exec" {
  description = "The command by which a kubeconfig gets a token for whoever runs it."
  value = {
    apiVersion         = "client.authentication.k8s.io/v1beta1"
    command            = "gke-gcloud-auth-plugin"
    args               = []
    provideClusterInfo = true
  }

  # The cluster is of use once it has nodes.
  depends_on = [google_container_node_pool.this]
}
