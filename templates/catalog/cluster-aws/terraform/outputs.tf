output "name" {
  description = "The cluster's name."
  value       = aws_eks_cluster.this.name
}

output "endpoint" {
  description = "Where its API server is."
  value       = aws_eks_cluster.this.endpoint
}

output "ca" {
  description = "The certificate of its authority, in base64 as a kubeconfig has it."
  value       = aws_eks_cluster.this.certificate_authority[0].data
}

output "exec" {
  description = "The command by which a kubeconfig gets a token for whoever runs it."
  value = {
    apiVersion = "client.authentication.k8s.io/v1"
    command    = "aws"
    args       = ["eks", "get-token", "--output", "json", "--region", var.region, "--cluster-name", aws_eks_cluster.this.name]
  }

  # The cluster is of use once its nodes have all that they need.
  depends_on = [aws_eks_addon.after]
}

output "zones" {
  description = "The availability zones of its nodes."
  value       = local.zones
}
