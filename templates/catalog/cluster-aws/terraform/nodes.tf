data "aws_iam_policy_document" "nodes" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "nodes" {
  name               = "${var.name}-nodes"
  assume_role_policy = data.aws_iam_policy_document.nodes.json
}

# What a node itself needs: to join, and to pull images. What pods need they have by identities of their own, below.
resource "aws_iam_role_policy_attachment" "nodes" {
  for_each = toset(["AmazonEKSWorkerNodeMinimalPolicy", "AmazonEC2ContainerRegistryPullOnly"])

  role       = aws_iam_role.nodes.name
  policy_arn = "${local.policies}/${each.value}"
}

resource "aws_launch_template" "nodes" {
  name_prefix            = "${var.name}-"
  update_default_version = true

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      volume_type           = "gp3"
      volume_size           = var.node_disk_gib
      encrypted             = true
      delete_on_termination = true
    }
  }

  # Pods are one hop further away than the node, so they cannot take the node's role.
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  tag_specifications {
    resource_type = "instance"
    tags          = merge(var.tags, { Name = "${var.name}-node" })
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_eks_node_group" "this" {
  cluster_name           = aws_eks_cluster.this.name
  node_group_name_prefix = "${var.name}-"
  node_role_arn          = aws_iam_role.nodes.arn
  subnet_ids             = [for s in aws_subnet.private : s.id]
  ami_type               = var.node_arch == "arm64" ? "AL2023_ARM_64_STANDARD" : "AL2023_x86_64_STANDARD"
  instance_types         = [var.node_type]
  version                = aws_eks_cluster.this.version

  launch_template {
    id      = aws_launch_template.nodes.id
    version = aws_launch_template.nodes.latest_version
  }

  scaling_config {
    desired_size = var.node_min
    min_size     = var.node_min
    max_size     = var.node_max
  }

  update_config {
    max_unavailable_percentage = 33
  }

  lifecycle {
    create_before_destroy = true
    ignore_changes        = [scaling_config[0].desired_size] # whoever scales the cluster has the say

    precondition {
      condition     = var.node_max >= var.node_min
      error_message = "node_max (${var.node_max}) is less than node_min (${var.node_min})."
    }
  }

  # Without a network plugin no node becomes ready.
  depends_on = [
    aws_eks_addon.before,
    aws_iam_role_policy_attachment.nodes,
    aws_route.private,
    aws_route_table_association.private,
  ]
}

data "aws_iam_policy_document" "pods" {
  statement {
    actions = ["sts:AssumeRole", "sts:TagSession"]

    principals {
      type        = "Service"
      identifiers = ["pods.eks.amazonaws.com"]
    }
  }
}

locals {
  # The policies and service accounts of add-ons that talk to AWS.
  identities = {
    "vpc-cni"            = { policy = "AmazonEKS_CNI_Policy", account = "aws-node" }
    "aws-ebs-csi-driver" = { policy = "service-role/AmazonEBSCSIDriverPolicy", account = "ebs-csi-controller-sa" }
  }
}

resource "aws_iam_role" "addon" {
  for_each = local.identities

  name               = "${var.name}-${each.key}"
  assume_role_policy = data.aws_iam_policy_document.pods.json
}

resource "aws_iam_role_policy_attachment" "addon" {
  for_each = local.identities

  role       = aws_iam_role.addon[each.key].name
  policy_arn = "${local.policies}/${each.value.policy}"
}

resource "aws_eks_addon" "before" {
  for_each = toset(["eks-pod-identity-agent", "kube-proxy", "vpc-cni"])

  cluster_name                = aws_eks_cluster.this.name
  addon_name                  = each.value
  resolve_conflicts_on_create = "OVERWRITE"
  resolve_conflicts_on_update = "OVERWRITE"

  dynamic "pod_identity_association" {
    for_each = { for name, i in local.identities : name => i if name == each.value }

    content {
      role_arn        = aws_iam_role.addon[pod_identity_association.key].arn
      service_account = pod_identity_association.value.account
    }
  }

  depends_on = [aws_iam_role_policy_attachment.addon]
}

resource "aws_eks_addon" "after" {
  for_each = {
    "coredns"            = null
    "aws-ebs-csi-driver" = jsonencode({ defaultStorageClass = { enabled = true } })
  }

  cluster_name                = aws_eks_cluster.this.name
  addon_name                  = each.key
  configuration_values        = each.value
  resolve_conflicts_on_create = "OVERWRITE"
  resolve_conflicts_on_update = "OVERWRITE"

  dynamic "pod_identity_association" {
    for_each = { for name, i in local.identities : name => i if name == each.key }

    content {
      role_arn        = aws_iam_role.addon[pod_identity_association.key].arn
      service_account = pod_identity_association.value.account
    }
  }

  depends_on = [
    aws_eks_node_group.this,
    aws_iam_role_policy_attachment.addon,
  ]
}
