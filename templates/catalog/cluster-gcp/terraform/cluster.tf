# Nodes have a service account of their own, with what a node needs and no more: the project's default one may do much.
resource "google_service_account" "nodes" {
  account_id   = "${var.name}-nodes"
  display_name = "Nodes of the cluster ${var.name}"
}

resource "google_project_iam_member" "nodes" {
  for_each = toset(["roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader"])

  project = var.project
  role    = each.value
  member  = google_service_account.nodes.member
}

data "google_project" "this" {
  project_id = var.project
}

resource "google_kms_crypto_key_iam_member" "secrets" {
  count = var.secrets_key == null ? 0 : 1

  crypto_key_id = var.secrets_key
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = "serviceAccount:service-${data.google_project.this.number}@container-engine-robot.iam.gserviceaccount.com"

  depends_on = [google_project_service.this]
}

resource "google_container_cluster" "this" {
  name                = var.name
  location            = var.region
  network             = google_compute_network.this.id
  subnetwork          = google_compute_subnetwork.this.id
  min_master_version  = var.kubernetes_version
  deletion_protection = var.deletion_protection
  datapath_provider   = "ADVANCED_DATAPATH" # enforces network policies

  # GKE makes a cluster with a pool of its own, for which the one below steps in.
  remove_default_node_pool = true
  initial_node_count       = 1

  node_config {
    service_account = google_service_account.nodes.email
    disk_size_gb    = 20
    disk_type       = "pd-standard"

    shielded_instance_config {
      enable_secure_boot = true
    }
  }

  release_channel {
    channel = var.release_channel
  }

  private_cluster_config {
    enable_private_nodes    = true
    enable_private_endpoint = length(var.api_cidrs) == 0
  }

  master_authorized_networks_config {
    dynamic "cidr_blocks" {
      for_each = toset(var.api_cidrs)

      content {
        cidr_block = cidr_blocks.value
      }
    }
  }

  ip_allocation_policy {
    cluster_secondary_range_name  = "pods"
    services_secondary_range_name = "services"
  }

  workload_identity_config {
    workload_pool = "${var.project}.svc.id.goog"
  }

  database_encryption {
    state    = var.secrets_key == null ? "DECRYPTED" : "ENCRYPTED"
    key_name = var.secrets_key
  }

  master_auth {
    client_certificate_config {
      issue_client_certificate = false
    }
  }

  security_posture_config {
    mode               = "BASIC"
    vulnerability_mode = "VULNERABILITY_DISABLED"
  }

  logging_config {
    enable_components = ["SYSTEM_COMPONENTS", "WORKLOADS"]
  }

  monitoring_config {
    enable_components = ["SYSTEM_COMPONENTS"]
  }

  lifecycle {
    ignore_changes = [initial_node_count, node_config] # those of the pool that is gone
  }

  depends_on = [
    google_kms_crypto_key_iam_member.secrets,
    google_project_iam_member.nodes,
    google_project_service.this,
  ]
}

resource "google_container_node_pool" "this" {
  name_prefix        = "${var.name}-"
  cluster            = google_container_cluster.this.id
  initial_node_count = 1

  autoscaling {
    total_min_node_count = var.node_min
    total_max_node_count = var.node_max
    location_policy      = "BALANCED"
  }

  management {
    auto_repair  = true
    auto_upgrade = true
  }

  upgrade_settings {
    max_surge       = 1
    max_unavailable = 0
  }

  node_config {
    machine_type    = var.node_type
    image_type      = "COS_CONTAINERD"
    disk_size_gb    = var.node_disk_gib
    disk_type       = "pd-balanced"
    service_account = google_service_account.nodes.email
    oauth_scopes    = ["https://www.googleapis.com/auth/cloud-platform"] # what the account may do is its roles' to say

    metadata = {
      disable-legacy-endpoints = "true"
    }

    shielded_instance_config {
      enable_secure_boot          = true
      enable_integrity_monitoring = true
    }

    # Pods cannot take the node's account.
    workload_metadata_config {
      mode = "GKE_METADATA"
    }
  }

  lifecycle {
    create_before_destroy = true
    ignore_changes        = [initial_node_count] # whoever scales the cluster has the say

    precondition {
      condition     = var.node_max >= var.node_min
      error_message = "node_max (${var.node_max}) is less than node_min (${var.node_min})."
    }
  }

  depends_on = [google_compute_router_nat.this]
}
