variable "name" {
  description = "The cluster's name, of which all that is made for it takes its own."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,38}[a-z0-9]$", var.name))
    error_message = "A name has 2 to 40 lower case letters, digits and hyphens, and begins with a letter."
  }
}

variable "subscription" {
  description = "The id of the subscription to make the cluster in."
  type        = string

  validation {
    condition     = can(regex("^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", var.subscription))
    error_message = "A subscription's id is a UUID."
  }
}

variable "location" {
  description = "The region to make the cluster in."
  type        = string

  validation {
    condition     = can(regex("^[a-z]+[a-z0-9]*$", var.location))
    error_message = "A region is written like westeurope."
  }
}

variable "kubernetes_version" {
  description = "The version of Kubernetes, such as 1.34; null is what AKS takes by itself when the cluster is made."
  type        = string
  default     = null

  validation {
    condition     = var.kubernetes_version == null || can(regex("^1\\.[0-9]{2}$", var.kubernetes_version))
    error_message = "A version is written like 1.34: Azure takes the newest patch, and upgrades it."
  }
}

variable "network_cidr" {
  description = "The addresses of nodes. Pods have others, in an overlay."
  type        = string
  default     = "10.0.0.0/16"

  validation {
    condition     = can(cidrhost(var.network_cidr, 0)) && try(tonumber(split("/", var.network_cidr)[1]) <= 22, false)
    error_message = "The network is a CIDR of a /22 or wider, such as 10.0.0.0/16."
  }
}

variable "pods_cidr" {
  description = "The addresses of pods: a /24 for each node."
  type        = string
  default     = "10.244.0.0/16"

  validation {
    condition     = can(cidrhost(var.pods_cidr, 0))
    error_message = "It is a CIDR, such as 10.244.0.0/16."
  }
}

variable "services_cidr" {
  description = "The addresses of services."
  type        = string
  default     = "172.16.0.0/16"

  validation {
    condition     = can(cidrhost(var.services_cidr, 0))
    error_message = "It is a CIDR, such as 172.16.0.0/16."
  }
}

variable "zones" {
  description = "The availability zones of nodes. A region without zones has none."
  type        = list(string)
  default     = ["1", "2", "3"]

  validation {
    condition     = alltrue([for z in var.zones : contains(["1", "2", "3"], z)])
    error_message = "A zone is 1, 2 or 3."
  }
}

variable "api_cidrs" {
  description = "Who may reach the API from outside of the network. With none it is reached from inside alone."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for c in var.api_cidrs : can(cidrhost(c, 0))])
    error_message = "Each is a CIDR, such as 203.0.113.0/24."
  }
}

variable "admins" {
  description = "Object ids of the Entra groups that administer the cluster besides whoever makes it."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for a in var.admins : can(regex("^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", a))])
    error_message = "Each is the object id of an Entra group, a UUID."
  }
}

variable "node_type" {
  description = "The size of the nodes' machines."
  type        = string
  default     = "Standard_D2s_v5"
}

variable "node_min" {
  description = "How many nodes there are at least."
  type        = number
  default     = 2

  validation {
    condition     = var.node_min >= 1 && floor(var.node_min) == var.node_min
    error_message = "There is one node at least."
  }
}

variable "node_max" {
  description = "How many nodes there are at most."
  type        = number
  default     = 5

  validation {
    condition     = var.node_max >= 1 && floor(var.node_max) == var.node_max
    error_message = "There may be one node at least."
  }
}

variable "node_disk_gib" {
  description = "How large each node's disk is."
  type        = number
  default     = 64

  validation {
    condition     = var.node_disk_gib >= 30
    error_message = "A node's disk has 30 GiB at least."
  }
}

variable "host_encryption" {
  description = "Whether what is cached on the machines of nodes is encrypted too. The subscription must have the feature EncryptionAtHost."
  type        = bool
  default     = false
}

variable "tags" {
  description = "Tags on all that is made."
  type        = map(string)
  default     = {}
}
