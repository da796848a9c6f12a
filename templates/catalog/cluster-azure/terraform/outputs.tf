output "name" {
  description = "The cluster's name."
  value       = azurerm_kubernetes_cluster.this.name
}

# What a kubeconfig has of a cluster is no secret; the provider calls all of it one, because it may hold a key of a local account.
output "endpoint" {
  description = "Where its API server is."
  value       = nonsensitive(azurerm_kubernetes_cluster.this.kube_config[0].host)
}

output "ca" {
  description = "The certificate of its authority, in base64 as a kubeconfig has it."
  value       = nonsensitive(azurerm_kubernetes_cluster.this.kube_config[0].cluster_ca_certificate)
}

output "exec" {
  description = "The command by which a kubeconfig gets a token for whoever runs it."
  value = {
    apiVersion = "client.authentication.k8s.io/v1beta1"
    command    = "kubelogin"
    # The server's id is that of AKS itself, in every tenant.
    args = ["get-token", "--login", "azurecli", "--server-id", "6dae42f8-4368-4678-94ff-3960e28e3630"]
  }

  depends_on = [azurerm_role_assignment.maker]
}

output "resource_group" {
  description = "The resource group that has the cluster."
  value       = azurerm_resource_group.this.name
}
